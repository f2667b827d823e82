//! Escapes untrusted text for terminals and XML.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character moves the cursor, reorders text or is invisible, so that the visible text is not the actual text.
///
/// Covers control characters (including ESC and the C1 controls), line and paragraph separators, bidirectional overrides and
/// isolates, zero-width characters and tags (Unicode Technical Report 36, section 2.5 and 3.5).
pub fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Makes text safe to print on a terminal: deceptive characters are written as `\n`, `\x1b` or `\u{202e}`.
///
/// Backslashes are unchanged so that commands can be copied; `\x1b` in a name and an escaped ESC look the same.
pub fn terminal(text: &str) -> Cow<'_, str> {
    if !text.contains(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            c if c.is_ascii_control() => write!(safe, "\\x{:02x}", u32::from(c)).expect("a String takes all"),
            c if is_deceptive(c) => write!(safe, "\\u{{{:x}}}", u32::from(c)).expect("a String takes all"),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Escapes text or an attribute value for XML (XML 1.0, 2.2 and 2.4): deceptive characters are written as for a terminal, and
/// characters that XML forbids are removed.
pub fn xml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 16);
    for c in terminal(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => safe.push(char::REPLACEMENT_CHARACTER),
            c => safe.push(c),
        }
    }
    safe
}

/// Escapes text for Markdown (CommonMark 0.31): punctuation that could be markup is escaped; HTML, mentions and links stay text.
pub fn markdown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 16);
    for c in terminal(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '@' | '$' | '!' => safe.extend(['\\', c]),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_stay_as_they_are() {
        assert!(matches!(terminal("kworker/0:1-événements 日本"), Cow::Borrowed(_)));
    }

    #[test]
    fn what_deceives_is_written_out() {
        assert_eq!(terminal("a\nb\tc\x1b[31m\u{7f}"), r"a\nb\tc\x1b[31m\x7f");
        assert_eq!(
            terminal("\u{9b}2J\u{202e}exe.txt\u{2066}\u{200b}\u{2028}"),
            r"\u{9b}2J\u{202e}exe.txt\u{2066}\u{200b}\u{2028}"
        );
    }

    #[test]
    fn markup_is_text_in_markdown() {
        assert_eq!(markdown("a*b* [x](y) <img> | `c` @d\n"), r"a\*b\* \[x\](y) &lt;img> \| \`c\` \@d\\n");
    }

    #[test]
    fn escaped_text_reads_back_from_xml() {
        assert_eq!(
            xml("</title><script>'\"&\u{0}\u{ffff}"),
            "&lt;/title&gt;&lt;script&gt;&#39;&quot;&amp;\\x00\u{fffd}"
        );
        assert_eq!(xml("std::vec<T>"), "std::vec&lt;T&gt;");
    }
}
