//! Numbers and units as tools print them, in any locale.

pub const KIB: f64 = 1024.0;
pub const MIB: f64 = KIB * KIB;
pub const GIB: f64 = MIB * KIB;
/// Sector size in which the kernel counts, whatever the device's block size.
pub const SECTOR: f64 = 512.0;
pub const NS_PER_MS: f64 = 1e6;

/// Parses a number without a sign, except for `-0.00`: `12`, `0.42`, `0,42` as many locales print it, or with thousands
/// separators: `1,234,567.8`, `1.234.567`, `1.234,5`. Rejects `nan`, exponents, and `1,234`, whose meaning depends on the
/// locale.
pub fn number(text: &str) -> Option<f64> {
    let is_mark = |b: &u8| matches!(b, b'.' | b',');
    // A negative value that was rounded to zero.
    let zero = text.strip_prefix('-').filter(|digits| digits.bytes().all(|b| b == b'0' || is_mark(&b)));
    let text = zero.unwrap_or(text);
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit() || is_mark(&b)) {
        return None;
    }
    let mut marks = text.bytes().enumerate().filter(|(_, b)| is_mark(b));
    let parsed = match (marks.next(), marks.next()) {
        (None, _) | (Some((_, b'.')), None) => text.parse(),
        (Some((at, _)), None) if text.len() - at == 4 && (1..=3).contains(&at) && !text.starts_with('0') => {
            return None;
        }
        (Some(_), None) => text.replace(',', ".").parse(),
        (Some(_), Some(_)) => grouped(text)?.parse(),
    };
    parsed.ok().filter(|n: &f64| n.is_finite())
}

/// Converts a number with several separators to a plain one, if every group but the first has three digits.
fn grouped(text: &str) -> Option<String> {
    let thousands = text.chars().find(|c| !c.is_ascii_digit())?;
    let decimal = if thousands == ',' { '.' } else { ',' };
    let (whole, fraction) = text.split_once(decimal).unwrap_or((text, ""));
    let mut groups = whole.split(thousands);
    let first = groups.next().is_some_and(|group| (1..=3).contains(&group.len()) && !group.starts_with('0'));
    let is_grouped = first && groups.all(|group| group.len() == 3) && fraction.bytes().all(|b| b.is_ascii_digit());
    let fraction = if fraction.is_empty() { "0" } else { fraction };
    is_grouped.then(|| format!("{}.{fraction}", whole.replace(thousands, "")))
}

/// Parses a number followed by a unit prefix: `1.5G` is 1.5 × step³. Multiplies a number without a prefix by `plain`.
pub fn scaled(text: &str, step: f64, plain: f64) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let power = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => return Some(number(digits)? * plain),
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    Some(number(digits)? * step.powi(power))
}

/// Returns true if several numbers, or a name and numbers, ran together without a space: `0.0025.200.002.40`.
pub fn ran_together(field: &str) -> bool {
    let decimals =
        field.as_bytes().windows(3).filter(|w| w[0].is_ascii_digit() && w[1] == b'.' && w[2].is_ascii_digit());
    decimals.count() > 1 && field.parse::<std::net::IpAddr>().is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locales_differ_and_nothing_else_is_a_number() {
        assert_eq!(number("0.42"), Some(0.42));
        assert_eq!(number("23189,50"), Some(23189.5));
        assert_eq!(number(".97"), Some(0.97));
        assert_eq!(number("0,123"), Some(0.123));
        assert_eq!(number("-0.00").map(f64::abs), Some(0.0));
        for (text, value) in
            [("1,000.5", 1000.5), ("1.234.567", 1_234_567.0), ("1,234,567", 1_234_567.0), ("1.234,5", 1234.5)]
        {
            assert_eq!(number(text), Some(value), "{text}");
        }
        for wrong in
            ["", ".", "-1", "1e9", "nan", "inf", "0.00.2", "1,234", "1,23,456", "10.0.0.1", "1.000.00", "5m", "٣"]
        {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn columns_that_ran_together_are_seen() {
        assert!(ran_together("sda0.0025.200.002.400.000.1190.67"));
        assert!(!ran_together("10.100"));
        assert!(!ran_together("192.168.1.1"));
    }
}
