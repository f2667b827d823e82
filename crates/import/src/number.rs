//! Numbers and units as tools print them, in any locale.

pub const KIB: f64 = 1024.0;
pub const MIB: f64 = KIB * KIB;
pub const GIB: f64 = MIB * KIB;
/// The kernel counts in sectors of this size, whatever the device's block size.
pub const SECTOR: f64 = 512.0;
pub const NS_PER_MS: f64 = 1e6;

/// A number without sign: `12`, `0.42`, or `0,42` as many locales print it. Rejects `nan` and exponents.
pub fn number(text: &str) -> Option<f64> {
    let plain = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let marks = text.bytes().filter(|b| matches!(b, b'.' | b',')).count();
    if marks > 1 || text.is_empty() || !text.chars().all(plain) {
        return None;
    }
    let parsed = if text.contains(',') { text.replace(',', ".").parse() } else { text.parse() };
    parsed.ok().filter(|n: &f64| n.is_finite())
}

/// A number followed by a prefix of its unit: `1.5G` is 1.5 × step³. Without a prefix it is multiplied by `plain`.
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

/// Whether several numbers, or a name and numbers, stand here without a space: `0.0025.200.002.40`.
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
        for wrong in ["", ".", "-1", "1e9", "nan", "inf", "0.00.2", "1,000.5", "5m", "٣"] {
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
