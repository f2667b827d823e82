//! Content of a node's box, in lines that fit into it.

use super::words;
use unicode_width::UnicodeWidthChar;
use whyslow_documents::io_stack::{IoStack, StackNode};

/// Facts that are too long for a box; its tooltip contains them.
const LONG: [&str; 2] = ["options", "mount points"];
/// Maximum number of lines of facts, and of any other text.
const MOST_LINES: usize = 3;

/// A line of text: pieces, each with the name of its class.
pub(super) type Line = Vec<(&'static str, String)>;

/// Returns the lines of a box with this many columns.
pub(super) fn lines(stack: &IoStack, node: &StackNode, columns: usize, all: bool) -> Vec<Line> {
    let facts = words::facts(node, all).into_iter().filter(|(name, _)| !LONG.contains(name));
    let facts: Vec<String> = facts.map(|(_, text)| text).collect();
    let interrupts = words::interrupts(&node.interrupts, false, |text| text).map(|text| format!("interrupts {text}"));
    let alike: Vec<&str> = stack.alike(&node.id).filter(|_| !all).map(words::full_name).collect();
    let alike = (!alike.is_empty()).then(|| format!("{} more like it: {}", alike.len(), words::names(&alike)));
    let paragraph = |class: &'static str, text: &str| {
        wrapped(text, columns, MOST_LINES).into_iter().map(move |line| vec![(class, line)]).collect::<Vec<Line>>()
    };
    let mut lines = vec![heading(node, columns)];
    lines.extend(paragraph("muted", &facts.join(", ")));
    lines.extend(limits(node, columns));
    lines.extend(interrupts.iter().flat_map(|text| paragraph("muted", text)));
    lines.extend(node.problems.iter().flat_map(|problem| paragraph("problem", &format!("! {problem}"))));
    lines.extend(alike.iter().flat_map(|text| paragraph("muted", text)));
    lines
}

/// Returns the name, with the network namespace if there is room for part of it.
fn heading(node: &StackNode, columns: usize) -> Line {
    // The heading has larger letters.
    let columns = columns * 9 / 10;
    let name = shortened(&node.name, columns);
    let left = columns.saturating_sub(width(&name) + 4);
    let netns =
        node.netns.as_ref().filter(|_| left > 3).map(|netns| ("muted", format!(" in {}", shortened(netns, left))));
    std::iter::once(("name", name)).chain(netns).collect()
}

/// Returns a line for each kind of limit; the smallest limit of the path is marked.
fn limits(node: &StackNode, columns: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for limits in node.limits.chunk_by(|a, b| a.kind == b.kind) {
        let mut line = vec![("muted", limits[0].kind.words().to_owned())];
        let mut used = width(&line[0].1);
        for (number, limit) in limits.iter().enumerate() {
            let is_smallest = !limit.smallest_for.is_empty();
            let mark = if is_smallest { "*" } else { "" };
            let comma = if number + 1 < limits.len() { "," } else { "" };
            let value = format!(" {}{mark}", limit.kind.quantity(limit.value));
            used += width(&value) + width(comma);
            if used > columns {
                used = width(&value) + width(comma);
                lines.push(std::mem::take(&mut line));
            }
            line.extend([(if is_smallest { "least" } else { "" }, value), ("", comma.to_owned())]);
        }
        lines.push(line);
    }
    lines
}

/// Returns all facts about a node for its tooltip, one per line.
pub(super) fn tooltip(node: &StackNode) -> Vec<String> {
    let facts = words::facts(node, true).into_iter().map(|(_, text)| text);
    let limits = node.limits.iter().map(|limit| {
        format!("{} {}{}", limit.kind.words(), limit.kind.quantity(limit.value), words::origin(limit, true))
    });
    let interrupts = words::interrupts(&node.interrupts, true, |text| text).map(|text| format!("interrupts {text}"));
    std::iter::once(words::full_name(node).to_owned()).chain(facts).chain(limits).chain(interrupts).collect()
}

fn width(text: &str) -> usize {
    text.chars().filter_map(UnicodeWidthChar::width).sum()
}

/// Shortens long text in the middle, because paths differ at the end, and devices at the beginning.
pub(super) fn shortened(text: &str, columns: usize) -> String {
    // An escaped character takes up to ten columns; a hostile name deserves no better layout.
    if width(&crate::escape::terminal(text)) <= columns {
        return text.to_owned();
    }
    let half = columns.saturating_sub(1) / 2;
    let (start, end) = (fitting(text.chars(), half), fitting(text.chars().rev(), half));
    format!("{start}…{}", end.chars().rev().collect::<String>())
}

/// Returns the first characters that fit into this many columns when they are escaped.
fn fitting(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += width(&crate::escape::terminal(c.encode_utf8(&mut [0; 4])));
        used <= columns
    };
    chars.take_while(fits).collect()
}

/// Wraps text to this many columns; truncates what exceeds the last line.
fn wrapped(text: &str, columns: usize, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let word = shortened(word, columns);
        let is_last = lines.len() == most;
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(&word) <= columns => {
                line.push(' ');
                line.push_str(&word);
            }
            Some(last) if is_last => {
                let kept = fitting(last.chars(), columns.saturating_sub(2));
                *last = format!("{} …", kept.trim_end_matches([',', ' ']));
                break;
            }
            _ => lines.push(word),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_wrapped_and_its_end_is_cut_off() {
        assert_eq!(wrapped("virtio, rotating, 256 GiB", 17, 3), ["virtio, rotating,", "256 GiB"]);
        assert_eq!(wrapped("a, b, c, d, e", 5, 2), ["a, b,", "c …"]);
        assert_eq!(wrapped("", 5, 2), <[&str; 0]>::default());
        assert_eq!(wrapped("/a/rather/long/path", 9, 2), ["/a/r…path"]);
    }

    #[test]
    fn a_hostile_name_is_as_wide_as_it_is_written() {
        // Each is escaped as `\u{202e}`, eight columns.
        assert_eq!(shortened("\u{202e}\u{202e}\u{202e}", 20), "\u{202e}…\u{202e}");
        assert_eq!(shortened("日本語日本語", 12), "日本語日本語");
        assert_eq!(shortened("日本語日本語", 9), "日本…本語");
    }
}
