//! Removes what mail, forums, terminals and web pages add to a line of output, for all formats.

use std::borrow::Cow;

/// HTML elements around preformatted text.
const ELEMENTS: [&str; 9] = ["pre", "code", "tt", "p", "br", "br/", "br /", "blockquote", "div"];
const ENTITIES: [(&str, &str); 6] =
    [("&gt;", ">"), ("&lt;", "<"), ("&nbsp;", " "), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
/// Space that web pages and mail programs put in place of an ordinary one.
const NO_BREAK: char = '\u{a0}';
const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';
/// Colon of Chinese and Japanese input methods.
const WIDE_COLON: char = '\u{ff1a}';
/// Markers of a code block.
const FENCES: [&str; 2] = ["```", "~~~"];
/// Maximum length of the word after a fence: `console`.
const LONGEST_LANGUAGE: usize = 12;

/// Removes trailing white space, a byte order mark, text that a terminal overwrote, escape sequences, HTML elements and
/// entities, mail quotes, the asterisks with which forums mark bold text, the marks of code, and the frames of tables and boxes.
/// Returns how often the line was quoted.
pub fn clean(bytes: &[u8], into: &mut String) -> usize {
    let text = String::from_utf8_lossy(bytes);
    let line = text.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}');
    let line = line.rsplit('\r').next().unwrap_or(line);
    let line = without_escapes(line);
    let line = without_elements(&line);
    let (line, quotes) = unquoted(&line);
    if is_fence(line) {
        return quotes;
    }
    let line = without_marks_of_code(line);
    if is_frame(line) || is_table_ruler(line) {
        return quotes;
    }
    let line = if line.contains(NO_BREAK) { Cow::from(line.replace(NO_BREAK, " ")) } else { line.into() };
    let line = if line.contains(WIDE_COLON) { Cow::from(line.replace(WIDE_COLON, ":")) } else { line };
    if let Some(cells) = cells(&line) {
        into.push_str(&cells);
    } else {
        line.split("**").for_each(|piece| into.push_str(piece));
    }
    into.truncate(into.trim_end().len());
    quotes
}

/// Removes escape sequences (ECMA-48): `ESC [ … letter`, `ESC ] … BEL`, `ESC ( B`.
fn without_escapes(line: &str) -> Cow<'_, str> {
    if !line.contains(ESCAPE) {
        return line.into();
    }
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c != ESCAPE {
            text.push(c);
            continue;
        }
        let _ = match chars.next() {
            Some('[') => chars.find(|c| ('@'..='~').contains(c)),
            Some(']') => chars.find(|c| *c == BELL),
            Some('(' | ')') => chars.next(),
            other => other,
        };
    }
    text.into()
}

fn without_elements(line: &str) -> Cow<'_, str> {
    let mut text = Cow::from(line);
    if line.split('<').skip(1).any(|tag| tag.starts_with(|c: char| c == '/' || c.is_ascii_alphabetic())) {
        let mut kept = String::with_capacity(line.len());
        let mut rest = line;
        while let Some((before, after)) = rest.split_once('<') {
            kept.push_str(before);
            rest = match after.split_once('>').filter(|(tag, _)| is_element(tag)) {
                Some((_, after)) => after,
                None => {
                    kept.push('<');
                    after
                }
            };
        }
        kept.push_str(rest);
        text = kept.into();
    }
    if text.contains('&') && text.contains(';') {
        for (entity, character) in ENTITIES {
            text = text.replace(entity, character).into();
        }
    }
    text
}

/// Returns true for a tag: `pre`, `/pre`, `pre class="x"`.
fn is_element(tag: &str) -> bool {
    let tag = tag.strip_prefix('/').unwrap_or(tag);
    let name = tag.split(" class=").next().unwrap_or(tag);
    ELEMENTS.iter().any(|element| element.eq_ignore_ascii_case(name))
}

/// Removes quotation marks (`> > text`, or after spaces, ` > text`). Returns the text and how often it was quoted.
fn unquoted(mut line: &str) -> (&str, usize) {
    const MOST_SPACES: usize = 2;
    let spaces = line.len() - line.trim_start_matches(' ').len();
    if spaces <= MOST_SPACES && line[spaces..].starts_with("> ") {
        line = &line[spaces..];
    }
    let mut quotes = 0;
    while let Some(rest) = line.strip_prefix('>') {
        line = rest.strip_prefix(' ').unwrap_or(rest);
        quotes += 1;
    }
    (line, quotes)
}

/// Returns true for a code fence: "```console"
fn is_fence(line: &str) -> bool {
    let language = FENCES.iter().find_map(|fence| line.trim().strip_prefix(fence));
    language.is_some_and(|name| name.len() <= LONGEST_LANGUAGE && name.bytes().all(|b| b.is_ascii_alphabetic()))
}

/// Removes the marks at the beginning or the end of code that goes on in another line: `` `+-----+ ``, "```InnoDB: Warning".
fn without_marks_of_code(line: &str) -> &str {
    const MARKS: [&str; 2] = ["```", "`"];
    let is_lone = |mark: &&&str| line.matches('`').count() == mark.len();
    let mark = MARKS.iter().find(is_lone);
    mark.and_then(|mark| line.strip_prefix(*mark).or(line.strip_suffix(*mark))).unwrap_or(line)
}

fn is_box_drawing(c: char) -> bool {
    ('\u{2500}'..='\u{257f}').contains(&c)
}

/// Returns true if a line only draws: `┌────┐`, `+-----+----+`.
fn is_frame(line: &str) -> bool {
    let drawn = line.trim();
    let ruled = || drawn.len() > 2 && drawn.starts_with('+') && drawn.ends_with('+');
    (drawn.starts_with(is_box_drawing) && drawn.chars().all(|c| is_box_drawing(c) || c == ' '))
        || (ruled() && drawn.chars().all(|c| "+-=".contains(c)))
}

/// Returns true for the line below the header of a Markdown table: `|---|:-:|`, `-- | --`.
pub fn is_table_ruler(line: &str) -> bool {
    const FEWEST: usize = 2;
    let is_rule = |cell: &str| {
        let dashes = cell.strip_prefix(':').unwrap_or(cell);
        let dashes = dashes.strip_suffix(':').unwrap_or(dashes);
        dashes.len() >= FEWEST && dashes.bytes().all(|b| b == b'-')
    };
    let inside = line.trim().trim_start_matches('|').trim_end_matches('|');
    inside.split('|').count() >= FEWEST && inside.split('|').all(|cell| is_rule(cell.trim()))
}

/// Returns the row of a Markdown table without outer bars: `Mem: | 251 | 2`. Fills an empty cell before others, so that these
/// do not move into its column.
pub fn row_without_frame(line: &str) -> String {
    let cells: Vec<&str> = line.split('|').map(str::trim).collect();
    let last = cells.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
    let filled =
        cells.iter().enumerate().take(last + 1).map(|(at, cell)| if at > 0 && cell.is_empty() { "-" } else { *cell });
    filled.collect::<Vec<_>>().join(" ")
}

/// Returns the cells of a row between vertical lines: `│ a │ b │`, `| a | b |`. A tree, as lsblk draws it, has no line on the
/// right.
fn cells(line: &str) -> Option<String> {
    let row = line.trim();
    let edge = row.chars().next().filter(|c| "|│┃║".contains(*c))?;
    let inside = row.strip_prefix(edge)?.strip_suffix(edge).filter(|inside| !inside.is_empty())?;
    let inside = inside.strip_prefix(' ').unwrap_or(inside);
    Some(inside.chars().map(|c| if c == edge || is_box_drawing(c) { ' ' } else { c }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(line: &str) -> String {
        let mut text = String::new();
        clean(line.as_bytes(), &mut text);
        text
    }

    #[test]
    fn markup_of_mail_terminals_and_web_pages_is_removed() {
        for (line, text) in [
            ("> > sda 1\r\n", "sda 1"),
            (" > sda 1", "sda 1"),
            ("10 %\r20 %\rdone\r\n", "done"),
            ("\u{1b}[1;31msda\u{1b}[0m 1\u{1b}(B", "sda 1"),
            ("\u{1b}]0;title\u{7}$ vmstat", "$ vmstat"),
            ("<pre class=\"x\">sda 1</pre>", "sda 1"),
            ("&gt; a &lt;-- b &amp; c", "a <-- b & c"),
            ("**sda** 1", "sda 1"),
            ("sda \u{a0} 1", "sda   1"),
            ("```console", ""),
            ("```InnoDB: Warning: a long wait", "InnoDB: Warning: a long wait"),
            ("`+-----+---+", ""),
            ("| sda | 1 |`", "sda   1  "),
            ("`sda` 1", "`sda` 1"),
            ("┌────┬───┐", ""),
            ("│ sda │ 1 │", "sda   1  "),
            ("| sda | 1 |", "sda   1  "),
            ("+-----+---+", ""),
            ("|-----|:--:|", ""),
            ("-- | -- | --", ""),
            ("used_memory\u{ff1a}12", "used_memory:12"),
        ] {
            assert_eq!(cleaned(line).trim_end(), text.trim_end(), "{line:?}");
        }
    }

    #[test]
    fn an_empty_cell_does_not_shift_the_others() {
        assert_eq!(row_without_frame("  | total | used | free"), " total used free");
        assert_eq!(row_without_frame("Swap: | 3 |  | 3 |   |"), "Swap: 3 - 3");
    }

    #[test]
    fn output_that_looks_like_markup_is_kept() {
        for line in [
            "├─sda1",
            "│ └─sda2",
            "<4>[    5.712574] x",
            "<6>Jun  1 x",
            "|--50%--foo",
            "            |--",
            "-----+-----",
            "a<b>c",
            "    > x",
            "+ vmstat 1",
        ] {
            assert_eq!(cleaned(line), line);
        }
    }
}
