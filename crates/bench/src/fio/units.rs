//! Sizes and times as fio writes them (fio(1), 'Parameter types').

/// How sizes are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Base {
    /// What a k is: 1024 unless `kb_base=1000`.
    pub(super) k: u64,
}

/// Bytes, or a share of the target in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Amount {
    Bytes(u64),
    Percent(f64),
}

impl Amount {
    /// So many bytes of a whole of so many.
    pub(super) fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (whole as f64 * percent / 100.0) as u64,
        }
    }
}

impl Base {
    /// `4096`, `0x1000`, `4k`, `1g`. With the usual base a k is 1024 and a ki is 1000, for so it once was; with
    /// `kb_base=1000` each is what its name says (`__get_mult_bytes`, parse.c).
    pub(super) fn bytes(self, text: &str) -> Result<u64, String> {
        let lower = text.trim().to_ascii_lowercase();
        let (number, unit) = split(&lower);
        let number = number.ok_or_else(|| format!("'{text}' is no size"))?;
        let (letter, rest) = unit.split_at(unit.len().min(1));
        let power = match letter {
            "" => return Ok(number),
            "k" => 1,
            "m" => 2,
            "g" => 3,
            "t" => 4,
            "p" => 5,
            _ => return Err(format!("'{text}' is no size")),
        };
        let k: u64 = match rest {
            "" | "b" => self.k,
            "i" | "ib" if self.k == 1024 => 1000,
            "i" | "ib" => 1024,
            _ => return Err(format!("'{text}' is no size")),
        };
        k.checked_pow(power).and_then(|k| number.checked_mul(k)).ok_or_else(|| format!("'{text}' is too large"))
    }

    /// The same, or `20%`.
    pub(super) fn amount(self, text: &str) -> Result<Amount, String> {
        match text.trim().strip_suffix('%') {
            None => self.bytes(text).map(Amount::Bytes),
            Some(percent) => match percent.parse::<f64>() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Amount::Percent(percent)),
                _ => Err(format!("'{text}' is no percentage")),
            },
        }
    }
}

/// A number and what follows it.
fn split(text: &str) -> (Option<u64>, &str) {
    if let Some(hex) = text.strip_prefix("0x") {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        return (u64::from_str_radix(&hex[..end], 16).ok(), &hex[end..]);
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].parse().ok(), &text[end..])
}

/// A time in seconds; a bare number is of `unit` microseconds.
pub(super) fn seconds(text: &str, unit: f64) -> Result<f64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let (number, suffix) = split(&lower);
    let number = number.ok_or_else(|| format!("'{text}' is no time"))?;
    let unit = match suffix {
        "" => unit,
        "us" | "usec" => 1.0,
        "ms" | "msec" => 1e3,
        "s" => 1e6,
        "m" => 60e6,
        "h" => 3600e6,
        "d" => 86_400e6,
        _ => return Err(format!("'{text}' is no time: us, ms, s, m, h and d are units")),
    };
    Ok(number as f64 * unit / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Base = Base { k: 1024 };

    #[test]
    fn sizes_are_fios() {
        for (text, bytes) in [
            ("512", 512),
            ("4k", 4096),
            ("4K", 4096),
            ("1mb", 1 << 20),
            ("2G", 2 << 30),
            ("4kib", 4000),
            ("0x200", 512),
        ] {
            assert_eq!(USUAL.bytes(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "k", "4kk", "4q", "-4k", "1.5m", "99999999999999p"] {
            assert!(USUAL.bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn amounts_may_be_shares() {
        assert_eq!(USUAL.amount("25%").unwrap().of(1 << 20), 1 << 18);
        assert_eq!(USUAL.amount("4k").unwrap().of(7), 4096);
        assert!(USUAL.amount("101%").is_err() && USUAL.amount("-1%").is_err());
    }

    #[test]
    fn times_have_units() {
        assert_eq!(seconds("10", 1e6), Ok(10.0));
        assert_eq!(seconds("500ms", 1e6), Ok(0.5));
        assert_eq!(seconds("2m", 1e6), Ok(120.0));
        assert_eq!(seconds("100", 1.0), Ok(1e-4));
        assert!(seconds("1min", 1e6).is_err() && seconds("", 1e6).is_err());
    }
}
