//! Numbers with a unit behind them, in the unit a tunable is set in: `512MiB` for one of KiB is 524288.

use nix::unistd::{SysconfVar, sysconf};

/// What one of each suffix is, in bytes. One letter is binary, as the kernel's own parsers have it (lib/cmdline.c).
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

/// What one of each suffix is, in nanoseconds.
const NANOSECONDS: &[(&str, i128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A whole number, with a suffix where `unit` is one of size or time.
///
/// # Errors
/// What is wrong with it: no number, a suffix that does not fit, or one that leaves a remainder.
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

/// The suffixes that fit a unit, and what one of the unit is in theirs.
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
