//! Numbers and lines in the bytes of a file under /proc.

/// The decimal number that makes up all of `bytes`.
pub(super) fn number(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |n, b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

/// The same with a sign.
pub(super) fn signed(bytes: &[u8]) -> Option<i64> {
    match bytes.strip_prefix(b"-") {
        Some(digits) => number(digits).and_then(|n| 0i64.checked_sub_unsigned(n)),
        None => number(bytes).and_then(|n| n.try_into().ok()),
    }
}

/// The words of a line, between blanks and tabs.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty())
}

/// The `name: value` lines of a file, the blanks around the value left out.
pub(super) fn pairs(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|b| *b == b'\n').filter_map(|line| {
        let colon = line.iter().position(|b| *b == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_or_nothing() {
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(number(b""), None);
        assert_eq!(number(b"-1"), None);
        assert_eq!(number(b"1x"), None);
        assert_eq!(signed(b"-20"), Some(-20));
        assert_eq!(signed(b"19"), Some(19));
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(signed(b"-"), None);
    }

    #[test]
    fn pairs_are_split_at_the_first_colon() {
        let found: Vec<_> = pairs(b"Name:\ta:b\nnothing\nUid:\t1\t2\n").collect();
        assert_eq!(found, [(&b"Name"[..], &b"a:b"[..]), (b"Uid", b"1\t2")]);
    }
}
