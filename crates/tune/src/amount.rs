//! Parses numbers with a unit suffix into the unit of a tunable: `512MiB` for a tunable in KiB is 524288.

use nix::unistd::{SysconfVar, sysconf};

/// Bytes per unit of each suffix. One-letter suffixes are binary, as in the kernel's own parsers (lib/cmdline.c).
const BYTES: &[(&str, i128)] = &[
    ("B", 1),
    ("K", 1 << 10),
    ("KiB", 1 << 10),
    ("kB", 1000),
    ("M", 1 << 20),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("G", 1 << 30),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("T", 1 << 40),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
];

/// Nanoseconds per unit of each suffix.
const NANOSECONDS: &[(&str, i128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a whole number, with an optional suffix if `unit` is a unit of size or time.
///
/// # Errors
/// Fails if the text is not a number, the suffix does not fit the unit, or the conversion leaves a remainder.
pub(crate) fn parse(text: &str, unit: &str) -> Result<i128, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(text.len());
    let (number, suffix) = text.split_at(digits);
    let number: i128 = number.parse().map_err(|_| format!("'{text}' is not a whole number"))?;
    let suffix = suffix.trim();
    if suffix.is_empty() || suffix == unit {
        return Ok(number);
    }
    let (table, size) = table(unit).ok_or_else(|| format!("'{text}': must be a plain number"))?;
    let (_, factor) = table
        .iter()
        .find(|(name, _)| *name == suffix)
        .ok_or_else(|| format!("'{text}': '{suffix}' is not a unit of {unit}"))?;
    let base = number.checked_mul(*factor).ok_or_else(|| format!("'{text}' is too large"))?;
    if base % size != 0 {
        return Err(format!("'{text}' is not a whole number of {unit}"));
    }
    Ok(base / size)
}

/// Returns the suffixes that fit a unit, and the size of the unit in their base.
fn table(unit: &str) -> Option<(&'static [(&'static str, i128)], i128)> {
    Some(match unit {
        "bytes" => (BYTES, 1),
        "KiB" => (BYTES, 1 << 10),
        "pages" => (BYTES, page_size()),
        "s" => (NANOSECONDS, 1_000_000_000),
        "centiseconds" => (NANOSECONDS, 10_000_000),
        "ms" => (NANOSECONDS, 1_000_000),
        "us" => (NANOSECONDS, 1_000),
        "ns" => (NANOSECONDS, 1),
        _ => return None,
    })
}

pub(crate) fn page_size() -> i128 {
    sysconf(SysconfVar::PAGE_SIZE).ok().flatten().map_or(4096, i128::from)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn suffixes_are_brought_to_the_unit() {
        assert_eq!(parse("60", ""), Ok(60));
        assert_eq!(parse("-1", "us"), Ok(-1));
        assert_eq!(parse("16MiB", "bytes"), Ok(16_777_216));
        assert_eq!(parse("16M", "KiB"), Ok(16_384));
        assert_eq!(parse("5s", "centiseconds"), Ok(500));
        assert_eq!(parse("2 ms", "us"), Ok(2000));
        assert_eq!(parse("128 KiB", "KiB"), Ok(128));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(parse("1M", "").unwrap_err(), "'1M': must be a plain number");
        assert_eq!(parse("1500B", "KiB").unwrap_err(), "'1500B' is not a whole number of KiB");
        assert!(parse("1parsec", "s").is_err());
        assert!(parse("", "s").is_err());
        assert!(parse(&format!("{}T", i128::MAX), "bytes").is_err());
    }
}
