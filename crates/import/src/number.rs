//! Numbers as tools print them, in any locale.

/// Bytes of what tools call a kilobyte.
pub const KIB: f64 = 1024.0;

/// A number without sign: `12`, `0.42`, or `0,42` as many locales have it. Nothing else is one: no `nan`, no exponent.
pub fn number(text: &str) -> Option<f64> {
    let plain = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let marks = text.matches(['.', ',']).count();
    if marks > 1 || !text.chars().all(plain) || !text.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == ',')
    {
        return None;
    }
    text.replace(',', ".").parse().ok().filter(|n: &f64| n.is_finite())
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
