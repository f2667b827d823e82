//! Cuts words and numbers off a text, without copying.

/// Cuts the next word off the front of `text`; `None` at its end.
pub fn word<'t>(text: &mut &'t str) -> Option<&'t str> {
    let rest = text.trim_ascii_start();
    let end = rest.bytes().position(|b| b.is_ascii_whitespace()).unwrap_or(rest.len());
    let (word, rest) = rest.split_at(end);
    *text = rest;
    (!word.is_empty()).then_some(word)
}

/// Cuts off the next word if it is a whole number; otherwise leaves `text` unchanged.
pub fn number(text: &mut &str) -> Option<u64> {
    let mut rest = *text;
    let value = word(&mut rest)?.parse().ok()?;
    *text = rest;
    Some(value)
}

/// Cuts off the next word if it is a finite decimal number; otherwise leaves `text` unchanged.
pub fn decimal(text: &mut &str) -> Option<f64> {
    let mut rest = *text;
    let value: f64 = word(&mut rest)?.parse().ok()?;
    *text = rest;
    value.is_finite().then_some(value)
}

/// Returns the active choice in a sysfs file that lists all: `always [madvise] never`.
pub fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(choice, _)| choice)
}

/// Decodes escapes of four bytes that `decode` recognizes; leaves others unchanged.
pub fn unescape(text: &str, decode: fn([u8; 4]) -> Option<u8>) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        match rest.first_chunk().and_then(|escape| decode(*escape)) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the byte that `\040` stands for, as in paths (`seq_path`, fs/seq_file.c).
pub fn octal(escape: [u8; 4]) -> Option<u8> {
    let [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7'] = escape else { return None };
    Some((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'))
}

/// Returns the byte that `\x20` stands for, as in the kernel's log (Documentation/ABI/testing/dev-kmsg).
pub fn hexadecimal(escape: [u8; 4]) -> Option<u8> {
    let [b'\\', b'x', high, low] = escape else { return None };
    let digit = |d: u8| char::from(d).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// Returns the number in the name of a numbered entry: 3 for `cpu3` with prefix `cpu`; `None` for `cpuidle`.
pub fn numbered(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_are_cut_off_the_front() {
        let mut line = "  eth0 12 -3 1.5 inf";
        assert_eq!(number(&mut line), None);
        assert_eq!(word(&mut line), Some("eth0"));
        assert_eq!(number(&mut line), Some(12));
        assert_eq!(number(&mut line), None);
        assert_eq!(decimal(&mut line), Some(-3.0));
        assert_eq!(decimal(&mut line), Some(1.5));
        assert_eq!(decimal(&mut line), None);
        assert_eq!(word(&mut line), None);
    }

    #[test]
    fn the_choice_in_force_is_in_brackets() {
        assert_eq!(chosen("always [madvise] never\n"), Some("madvise"));
        assert_eq!(chosen("none\n"), None);
        assert_eq!(chosen("]["), None);
    }

    #[test]
    fn only_a_number_may_follow_the_prefix() {
        assert_eq!(numbered("cpu12", "cpu"), Some(12));
        assert_eq!(numbered("cpuidle", "cpu"), None);
        assert_eq!(numbered("cpu", "cpu"), None);
    }
}
