//! Small pieces of text out of lines of the log.

/// What follows a word.
pub fn after<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    text.split_once(word).map(|(_, rest)| rest)
}

/// The decimal number right behind a word, blanks apart.
pub fn number_after<N: std::str::FromStr>(text: &str, word: &str) -> Option<N> {
    let rest = after(text, word)?.trim_start();
    rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
}

/// The hexadecimal number right behind a word, with `0x` or without.
pub fn hex_after(text: &str, word: &str) -> Option<u32> {
    let rest = after(text, word)?.trim_start().trim_start_matches("0x");
    u32::from_str_radix(&rest[..rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len())], 16).ok()
}

/// The text up to the first of these characters.
pub fn until(text: &str, ends: impl Fn(char) -> bool) -> &str {
    text.split(ends).next().unwrap_or(text)
}

/// The word right behind another.
pub fn word_after<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    after(text, word)?.split_whitespace().next().map(|w| w.trim_end_matches([',', ':', ';', ')', '.']))
}

/// Whether one of these stands in a text.
pub fn says(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// What stands between two characters, the first time they are met.
pub fn between(text: &str, open: char, close: char) -> Option<&str> {
    let inside = text.split_once(open)?.1;
    inside.split_once(close).map(|(inside, _)| inside)
}

/// Whether a text is a decimal number.
pub fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_line() {
        let line = "host 0 channel 12 id 1 lun 0 return code = 0x27010000";
        assert_eq!((number_after::<u32>(line, "channel "), hex_after(line, "code =")), (Some(12), Some(0x2701_0000)));
        assert_eq!(number_after::<u8>("id 999", "id "), None);
        assert_eq!(word_after("task jbd2/sda1-8:812, blocked", "task "), Some("jbd2/sda1-8:812"));
        assert_eq!(between("EXT4-fs (sda1): x (y)", '(', ')'), Some("sda1"));
        assert_eq!(between("(ä", '(', ')'), None);
        assert!(is_number("09") && !is_number("") && !is_number("x"));
    }
}
