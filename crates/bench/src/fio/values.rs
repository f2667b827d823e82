//! Parsers for the values of options (fio(1), 'Parameter types'). Errors say what is wrong and what is accepted.

use whyslow_documents::bench::{AccessPattern, BlockSize, Engine, SyncPolicy};
use whyslow_model::cpu_list;

pub(super) type Parsed<T> = Result<T, String>;

/// Meaning of `k` in a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SizeBase {
    /// 1024, or 1000 with `kb_base=1000`.
    pub(super) k: u64,
}

impl Default for SizeBase {
    fn default() -> Self {
        Self { k: 1024 }
    }
}

/// Size in bytes or as a percentage of the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SizeOrPercent {
    Bytes(u64),
    Percent(f64),
}

impl SizeOrPercent {
    pub(super) fn bytes_of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (whole as f64 * percent / 100.0) as u64,
        }
    }
}

const NOT_A_SIZE: &str = "not a size such as 4096, 4k, 1m or 2g";

impl SizeBase {
    /// Parses `4096`, `0x1000`, `4k`, `1g`. By default k is 1024 and ki is 1000, for compatibility with old job files;
    /// with `kb_base=1000` both have their standard meaning (`__get_mult_bytes`, parse.c).
    pub(super) fn bytes(self, text: &str) -> Parsed<u64> {
        let lower = text.trim().to_ascii_lowercase();
        let (number, unit) = split(&lower);
        let number = number.ok_or(NOT_A_SIZE)?;
        let (letter, rest) = unit.split_at(unit.len().min(1));
        let power = match letter {
            "" => return Ok(number),
            "k" => 1,
            "m" => 2,
            "g" => 3,
            "t" => 4,
            "p" => 5,
            _ => return Err(NOT_A_SIZE.into()),
        };
        let k: u64 = match rest {
            "" | "b" => self.k,
            "i" | "ib" if self.k == 1024 => 1000,
            "i" | "ib" => 1024,
            _ => return Err(NOT_A_SIZE.into()),
        };
        k.checked_pow(power).and_then(|k| number.checked_mul(k)).ok_or_else(|| "too large".into())
    }

    /// Parses a size as [`bytes`](Self::bytes) does, or a percentage such as `20%`.
    pub(super) fn size_or_percent(self, text: &str) -> Parsed<SizeOrPercent> {
        match text.trim().strip_suffix('%') {
            None => self.bytes(text).map(SizeOrPercent::Bytes),
            Some(percent) => match percent.parse::<f64>() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(SizeOrPercent::Percent(percent)),
                _ => Err("not a percentage from 0% to 100%".into()),
            },
        }
    }

    pub(super) fn block(self, text: &str) -> Parsed<u32> {
        let bytes = u32::try_from(self.bytes(text)?).ok();
        bytes.filter(|bytes| (1..=1 << 30).contains(bytes)).ok_or_else(|| "a block has 1 byte to 1 GiB".into())
    }

    /// Parses `4k/60:64k/40`; blocks without a share divide the rest evenly.
    pub(super) fn bssplit(self, text: &str) -> Parsed<Vec<BlockSize>> {
        let mut sizes = Vec::new();
        for part in text.split(':') {
            let (size, share) = part.split_once('/').unwrap_or((part, ""));
            let share = if share.is_empty() { None } else { Some(percent(share)?) };
            sizes.push((self.block(size)?, share));
        }
        let given: f64 = sizes.iter().filter_map(|(_, share)| *share).sum();
        let open = sizes.iter().filter(|(_, share)| share.is_none()).count();
        if given > 1.0 + 1e-9 || (open == 0 && given < 1.0 - 1e-9) {
            return Err("the shares must add up to 100".into());
        }
        let rest = (1.0 - given) / open.max(1) as f64;
        Ok(sizes.into_iter().map(|(bytes, share)| BlockSize { bytes, share: share.unwrap_or(rest) }).collect())
    }

    /// Parses `1k-4k`: all multiples of the smallest size, equally likely.
    pub(super) fn bsrange(self, text: &str) -> Parsed<Vec<BlockSize>> {
        let (least, most) = text.split_once('-').ok_or("not a range such as 4k-64k")?;
        let (least, most) = (self.block(least)?, self.block(most)?);
        let count = most / least;
        if !(1..=4096).contains(&count) {
            return Err("the upper bound must be 1 to 4096 times the lower".into());
        }
        Ok((1..=count).map(|n| BlockSize { bytes: least * n, share: 1.0 / f64::from(count) }).collect())
    }
}

/// Splits a text into its leading number and the rest.
fn split(text: &str) -> (Option<u64>, &str) {
    if let Some(hex) = text.strip_prefix("0x") {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        return (u64::from_str_radix(&hex[..end], 16).ok(), &hex[end..]);
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].parse().ok(), &text[end..])
}

/// Parses a time and returns seconds; a number without a unit is in multiples of `unit` microseconds.
pub(super) fn seconds(text: &str, unit: f64) -> Parsed<f64> {
    const NOT_A_TIME: &str = "not a time such as 500ms, 10s or 2m (us, ms, s, m, h, d)";
    let lower = text.trim().to_ascii_lowercase();
    let (number, suffix) = split(&lower);
    let number = number.ok_or(NOT_A_TIME)?;
    let unit = match suffix {
        "" => unit,
        "us" | "usec" => 1.0,
        "ms" | "msec" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        "h" => 3600e6,
        "d" => 86_400e6,
        _ => return Err(NOT_A_TIME.into()),
    };
    Ok(number as f64 * unit / 1e6)
}

pub(super) fn kb_base(text: &str) -> Parsed<SizeBase> {
    match text {
        "1024" => Ok(SizeBase { k: 1024 }),
        "1000" => Ok(SizeBase { k: 1000 }),
        _ => Err("must be 1024 or 1000".into()),
    }
}

pub(super) fn path(text: &str) -> Parsed<String> {
    match text {
        "" => Err("the path is empty".into()),
        _ if text.contains('$') => Err("variables are not supported: write the path out".into()),
        _ if text.contains(':') => Err("one file per job is supported: write a section for each".into()),
        _ => Ok(text.to_owned()),
    }
}

pub(super) fn engine(text: &str) -> Parsed<Engine> {
    match text {
        // Both keep many requests in flight; what matters is the device, not the interface.
        "io_uring" | "libaio" => Ok(Engine::IoUring),
        "psync" | "sync" => Ok(Engine::Psync),
        "mmap" => Ok(Engine::Mmap),
        _ => Err("supported are io_uring, libaio, psync, sync and mmap".into()),
    }
}

pub(super) fn distribution(text: &str) -> Parsed<Option<AccessPattern>> {
    match text.split_once(':') {
        None if text == "random" => Ok(None),
        Some(("zipf", theta)) => match theta.parse::<f64>() {
            Ok(theta) if theta > 0.0 && theta.is_finite() => Ok(Some(AccessPattern::Zipf(theta))),
            _ => Err("the exponent must be greater than 0".into()),
        },
        _ => Err("supported are random and zipf:EXPONENT".into()),
    }
}

pub(super) fn flag(value: Option<&str>) -> Parsed<bool> {
    match value {
        None | Some("1" | "true") => Ok(true),
        Some("0" | "false") => Ok(false),
        Some(_) => Err("must be 0 or 1".into()),
    }
}

pub(super) fn only(text: &str, supported: &str) -> Parsed<()> {
    if text == supported { Ok(()) } else { Err(format!("only {supported} is supported")) }
}

pub(super) fn count(text: &str, most: u32) -> Parsed<u32> {
    text.parse().ok().filter(|n| (1..=most).contains(n)).ok_or_else(|| format!("must be a number from 1 to {most}"))
}

/// Parses the number of writes between syncs; 0 means never.
pub(super) fn sync_every(text: &str, data_only: bool) -> Parsed<Option<SyncPolicy>> {
    if text == "0" {
        return Ok(None);
    }
    Ok(Some(SyncPolicy { every: Some(count(text, u32::MAX)?), data_only }))
}

pub(super) fn percent(text: &str) -> Parsed<f64> {
    let number = text.trim_end_matches('%').parse::<u32>().ok().filter(|&n| n <= 100);
    number.map(|n| f64::from(n) / 100.0).ok_or_else(|| "must be a percentage from 0 to 100".into())
}

/// Parses a CPU list such as `0-3,8`.
pub(super) fn cpus(text: &str) -> Parsed<Vec<u32>> {
    /// CPU_SETSIZE of the C library.
    const MAX_CPU: u32 = 1023;
    let cpus = cpu_list::parse(text).filter(|cpus| cpus.last().is_some_and(|&last| last <= MAX_CPU));
    cpus.map(Vec::from_iter).ok_or_else(|| "not a list of CPUs such as 0-3,8".into())
}

/// Parses percentiles such as `50:99:99.9`.
pub(super) fn percentiles(text: &str) -> Parsed<Vec<f64>> {
    let share = |part: &str| match part.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("not a list of percentiles such as 50:99:99.9".to_owned()),
    };
    text.split(':').map(share).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: SizeBase = SizeBase { k: 1024 };

    #[test]
    fn sizes_are_read_as_fio_reads_them() {
        for (text, bytes) in [
            ("512", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("1mb", 1 << 20),
            ("2G", 2 << 30),
            ("4kib", 4000),
            ("0x200", 512),
        ] {
            assert_eq!(DEFAULT.bytes(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "k", "4kk", "4q", "-4k", "1.5m"] {
            assert_eq!(DEFAULT.bytes(wrong), Err(NOT_A_SIZE.into()), "{wrong}");
        }
        assert_eq!(DEFAULT.bytes("99999999999999p"), Err("too large".into()));
    }

    #[test]
    fn sizes_may_be_percentages_of_the_target() {
        assert_eq!(DEFAULT.size_or_percent("25%").unwrap().bytes_of(1 << 20), 1 << 18);
        assert_eq!(DEFAULT.size_or_percent("4k").unwrap().bytes_of(7), 4096);
        for wrong in ["101%", "-1%", "x%"] {
            assert!(DEFAULT.size_or_percent(wrong).unwrap_err().contains("percentage"), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(seconds("10", 1e6), Ok(10.0));
        assert_eq!(seconds("500ms", 1e6), Ok(0.5));
        assert_eq!(seconds("2m", 1e6), Ok(120.0));
        assert_eq!(seconds("100", 1.0), Ok(1e-4));
        for wrong in ["1min", "", "s"] {
            assert!(seconds(wrong, 1e6).unwrap_err().contains("not a time"), "{wrong}");
        }
    }
}
