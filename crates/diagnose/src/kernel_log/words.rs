//! Small pieces of text out of lines of the log.

/// What follows each occurrence of `word`. A word that begins with a letter or digit only counts at the start of a word:
/// `id ` is not in `pid 7`. See [`after_part`] for words whose beginning varies.
fn each_after<'t, 'w>(text: &'t str, word: &'w str) -> impl Iterator<Item = &'t str> + use<'t, 'w> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let bounded = word.starts_with(is_word);
    text.match_indices(word)
        .filter(move |(at, _)| !bounded || !text[..*at].ends_with(is_word))
        .map(|(at, found)| &text[at + found.len()..])
}

/// What follows a word.
pub fn after<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    each_after(text, word).next()
}

/// What follows a piece of text, also within a word: `ense key` for `Sense key` and `sense key`.
pub fn after_part<'t>(text: &'t str, part: &str) -> Option<&'t str> {
    text.split_once(part).map(|(_, rest)| rest)
}

/// What stands before and after a word.
pub fn around<'t>(text: &'t str, word: &str) -> Option<(&'t str, &'t str)> {
    let rest = after(text, word)?;
    Some((&text[..text.len() - rest.len() - word.len()], rest))
}

/// Whether a word stands in a text, by itself or at the start of a longer one.
pub fn has_word(text: &str, word: &str) -> bool {
    after(text, word).is_some()
}

/// The first that `read` makes of what follows a word.
pub fn find_after<'t, T>(text: &'t str, word: &str, read: impl FnMut(&'t str) -> Option<T>) -> Option<T> {
    each_after(text, word).find_map(read)
}

/// The decimal number at the start of a text, blanks apart.
pub fn leading_number<N: std::str::FromStr>(text: &str) -> Option<N> {
    let text = text.trim_start();
    text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())].parse().ok()
}

/// The decimal number right behind a word, blanks apart.
pub fn number_after<N: std::str::FromStr>(text: &str, word: &str) -> Option<N> {
    find_after(text, word, leading_number)
}

/// The hexadecimal number at the start of a text, with `0x` or without.
fn leading_hex(text: &str) -> Option<u32> {
    let text = text.trim_start().trim_start_matches("0x");
    u32::from_str_radix(&text[..text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len())], 16).ok()
}

/// The hexadecimal number right behind a word, with `0x` or without.
pub fn hex_after(text: &str, word: &str) -> Option<u32> {
    find_after(text, word, leading_hex)
}

/// As [`hex_after`], also within a word.
pub fn hex_after_part(text: &str, part: &str) -> Option<u32> {
    leading_hex(after_part(text, part)?)
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
