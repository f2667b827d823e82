//! Extracts small pieces of text from log lines.

/// Iterates over the texts after each occurrence of `word`. A word that begins with a letter or digit only counts at the start
/// of a word: `id ` is not in `pid 7`. See [`after_part`] for words whose beginning varies.
fn each_after<'t, 'w>(text: &'t str, word: &'w str) -> impl Iterator<Item = &'t str> + use<'t, 'w> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let bounded = word.starts_with(is_word);
    text.match_indices(word)
        .filter(move |(at, _)| !bounded || !text[..*at].ends_with(is_word))
        .map(|(at, found)| &text[at + found.len()..])
}

/// Returns the text after a word.
pub fn after<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    each_after(text, word).next()
}

/// Returns the text after a piece of text, also within a word: `ense key` for `Sense key` and `sense key`.
pub fn after_part<'t>(text: &'t str, part: &str) -> Option<&'t str> {
    text.split_once(part).map(|(_, rest)| rest)
}

/// Returns the text before and after a word.
pub fn around<'t>(text: &'t str, word: &str) -> Option<(&'t str, &'t str)> {
    let rest = after(text, word)?;
    Some((&text[..text.len() - rest.len() - word.len()], rest))
}

/// Returns true if a text contains a word, by itself or at the start of a longer one.
pub fn has_word(text: &str, word: &str) -> bool {
    after(text, word).is_some()
}

/// Returns the first result of `read` on the texts after a word.
pub fn find_after<'t, T>(text: &'t str, word: &str, read: impl FnMut(&'t str) -> Option<T>) -> Option<T> {
    each_after(text, word).find_map(read)
}

/// Parses the decimal number at the start of a text, after optional blanks.
pub fn leading_number<N: std::str::FromStr>(text: &str) -> Option<N> {
    let text = text.trim_start();
    text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())].parse().ok()
}

/// Parses the decimal number directly after a word, after optional blanks.
pub fn number_after<N: std::str::FromStr>(text: &str, word: &str) -> Option<N> {
    find_after(text, word, leading_number)
}

/// Parses the hexadecimal number at the start of a text, with or without `0x`.
fn leading_hex(text: &str) -> Option<u32> {
    let text = text.trim_start().trim_start_matches("0x");
    u32::from_str_radix(&text[..text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len())], 16).ok()
}

/// Parses the hexadecimal number directly after a word, with or without `0x`.
pub fn hex_after(text: &str, word: &str) -> Option<u32> {
    find_after(text, word, leading_hex)
}

/// Like [`hex_after`], also within a word.
pub fn hex_after_part(text: &str, part: &str) -> Option<u32> {
    leading_hex(after_part(text, part)?)
}

/// Returns the text up to the first of these characters.
pub fn until(text: &str, ends: impl Fn(char) -> bool) -> &str {
    text.split(ends).next().unwrap_or(text)
}

/// Returns the word directly after another.
pub fn word_after<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    after(text, word)?.split_whitespace().next().map(|w| w.trim_end_matches([',', ':', ';', ')', '.']))
}

/// Returns true if a text contains one of these words.
pub fn says(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

/// Returns the text between the first occurrences of two characters.
pub fn between(text: &str, open: char, close: char) -> Option<&str> {
    let inside = text.split_once(open)?.1;
    inside.split_once(close).map(|(inside, _)| inside)
}

/// Returns true if a text is a decimal number.
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
        assert_eq!(number_after::<u8>("pid 7, id 1", "id "), Some(1));
        assert_eq!(number_after::<u32>("pid 43891492", "id "), None);
        assert_eq!((after("iscsi0", "scsi"), after("x scsi0", "scsi")), (None, Some("0")));
        assert_eq!(hex_after("FASC=0x11 ASC=0x4", "ASC="), Some(4));
        assert_eq!(after_part("Sense Key : x", "ense Key : "), Some("x"));
        assert_eq!(word_after("task jbd2/sda1-8:812, blocked", "task "), Some("jbd2/sda1-8:812"));
        assert_eq!(between("EXT4-fs (sda1): x (y)", '(', ')'), Some("sda1"));
        assert_eq!(between("(ä", '(', ')'), None);
        assert!(is_number("09") && !is_number("") && !is_number("x"));
    }
}
