//! Values that a tunable accepts, and equality of their spellings.

use crate::amount;
use std::collections::BTreeSet;
use std::str::FromStr;
use whyslow_model::cpu_list;

/// Kind of values that a tunable accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// A whole number, or one of some words.
    Number(Range),
    /// Several numbers.
    Numbers(usize, Range),
    /// Several numbers, none lower than the one before it.
    Ascending(usize, Range),
    /// One of some words.
    OneOf(Vec<String>),
    /// One of those that the kernel lists, with the active one in brackets.
    Listed,
    /// CPUs as a hexadecimal mask.
    CpuMask,
    /// CPUs as a list: `0-3,8`.
    CpuList,
    /// Anything in one line.
    Text,
}

/// A range of whole numbers, and the words accepted besides them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    low: i128,
    high: Option<i128>,
    words: Vec<String>,
}

impl FromStr for Values {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "listed" => Self::Listed,
            "cpu mask" => Self::CpuMask,
            "cpu list" => Self::CpuList,
            "text" => Self::Text,
            _ => match text.split_once(" x ") {
                Some((count, range)) => {
                    let count = count.parse().map_err(|_| format!("'{text}': no count before x"))?;
                    match range.strip_suffix(" ascending") {
                        Some(range) => Self::Ascending(count, range.parse()?),
                        None => Self::Numbers(count, range.parse()?),
                    }
                }
                None if text.contains("..") => Self::Number(text.parse()?),
                None if text.contains('|') => Self::OneOf(text.split('|').map(str::to_owned).collect()),
                None => return Err(format!("'{text}' is not a set of values")),
            },
        })
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split(" or ");
        let range = parts.next().unwrap_or_default();
        let (low, high) = range.split_once("..").ok_or_else(|| format!("'{text}' is not a range"))?;
        let number = |text: &str| text.parse::<i128>().map_err(|_| format!("'{text}' is not a number"));
        Ok(Self {
            low: number(low)?,
            high: if high.is_empty() { None } else { Some(number(high)?) },
            words: parts.map(str::to_owned).collect(),
        })
    }
}

impl Range {
    fn check(&self, text: &str, unit: &str) -> Result<String, String> {
        if self.words.iter().any(|word| word == text) {
            return Ok(text.to_owned());
        }
        let number = amount::parse(text, unit).map_err(|why| match self.words.as_slice() {
            [] => why,
            words => format!("{why}; {} would also work", words.join(", ")),
        })?;
        match self.high {
            _ if number < self.low => Err(format!("{number} is below {}", self.low)),
            Some(high) if number > high => Err(format!("{number} is above {high}")),
            _ => Ok(number.to_string()),
        }
    }
}

impl Values {
    /// Checks a requested value and returns it in the form that is written to the kernel.
    pub(crate) fn check(&self, text: &str, unit: &str) -> Result<String, String> {
        if let Some(c) = text.chars().find(|c| c.is_control() && *c != '\t') {
            return Err(format!("a value must not contain control characters such as {c:?}"));
        }
        let text = squeeze(text);
        match self {
            Self::Number(range) => range.check(&text, unit),
            Self::Numbers(count, range) | Self::Ascending(count, range) => {
                let numbers: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
                if numbers.len() != *count {
                    return Err(format!(
                        "{count} values separated by spaces are needed; '{text}' has {}",
                        numbers.len()
                    ));
                }
                let checked: Result<Vec<_>, _> = numbers.into_iter().map(|number| range.check(number, unit)).collect();
                let checked = checked?;
                let numbers: Vec<i128> = checked.iter().filter_map(|number| number.parse().ok()).collect();
                if matches!(self, Self::Ascending(..)) && !numbers.is_sorted() {
                    return Err(format!("'{text}' is not in ascending order"));
                }
                Ok(checked.join(" "))
            }
            Self::OneOf(words) => {
                let word = flag(&text, words);
                words
                    .iter()
                    .find(|w| **w == word)
                    .cloned()
                    .ok_or_else(|| format!("'{text}' is not one of {}", words.join(", ")))
            }
            Self::CpuMask => {
                cpu_mask(&text).ok_or_else(|| format!("'{text}' is not a CPU mask such as f or 3,00000000"))
            }
            Self::CpuList => cpu_list(&text).ok_or_else(|| format!("'{text}' is not a CPU list such as 0-3,8")),
            Self::Listed | Self::Text => Ok(text),
        }
    }

    /// Converts a value that the kernel shows to the canonical spelling, in which values are compared and written back.
    pub(crate) fn canonical(&self, shown: &str) -> String {
        let text = squeeze(shown);
        match self {
            Self::Listed => chosen(&text).map_or(text.clone(), str::to_owned),
            Self::OneOf(words) => flag(&text, words),
            Self::CpuMask => cpu_mask(&text).unwrap_or(text),
            Self::CpuList => cpu_list(&text).unwrap_or(text),
            // io.weight of a control group shows its value as `default 100`, before those of individual disks.
            Self::Number(_) => match text.strip_prefix("default ").and_then(|rest| rest.split(' ').next()) {
                Some(number) => number.to_owned(),
                None => text,
            },
            Self::Numbers(..) | Self::Ascending(..) | Self::Text => text,
        }
    }

    /// Whether a requested value and the one that the kernel shows are equal, even if spelled differently: flags (kstrtobool),
    /// numbers in other bases or with a suffix (kstrtoint, memparse), masks and lists of CPUs.
    pub(crate) fn same(&self, asked: &str, shown: &str) -> bool {
        let (asked, shown) = (self.canonical(asked), self.canonical(shown));
        if asked == shown {
            return true;
        }
        // Kinds with a canonical spelling need no further comparison.
        if !matches!(self, Self::Listed | Self::Text) || asked.is_empty() || shown.is_empty() {
            return false;
        }
        let (a, b): (Vec<&str>, Vec<&str>) = (asked.split(' ').collect(), shown.split(' ').collect());
        a.len() == b.len() && a.iter().zip(b).all(|(asked, shown)| same_word(asked, shown))
    }

    /// Returns the values that the kernel lists; empty if it lists none.
    pub(crate) fn choices(&self, shown: &str) -> Vec<String> {
        match self {
            Self::Listed if chosen(shown).is_some() => {
                shown.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect()
            }
            Self::OneOf(words) => words.clone(),
            _ => Vec::new(),
        }
    }
}

/// Collapses spaces and tabs to one space and trims the ends: sysctl separates the numbers of a list by tabs.
pub(crate) fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the word in brackets of `none [mq-deadline] kyber`.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

/// Converts other spellings of a flag if the words are 0 and 1: the kernel itself shows some flags as Y and N (kstrtobool).
fn flag(text: &str, words: &[String]) -> String {
    let is_flag = words.len() == 2 && words[0] == "0" && words[1] == "1";
    match text {
        "on" | "yes" | "true" | "Y" | "y" if is_flag => "1".to_owned(),
        "off" | "no" | "false" | "N" | "n" if is_flag => "0".to_owned(),
        other => other.to_owned(),
    }
}

/// Whether two words are spellings of the same value.
fn same_word(asked: &str, shown: &str) -> bool {
    let both = |parse: fn(&str) -> Option<String>| {
        parse(asked).is_some_and(|asked| parse(shown).is_some_and(|shown| asked == shown))
    };
    let flags = || match shown {
        "Y" | "N" | "0" | "1" => as_flag(asked) == as_flag(shown),
        _ => false,
    };
    let numbers = || {
        as_number(shown)
            .is_some_and(|shown| as_number(asked) == Some(shown) || amount::parse(asked, "bytes") == Ok(shown))
    };
    // A mask is padded with zeros or separated by commas; without either, a word may be a number.
    let is_mask = shown.contains(',') || (shown.len() > 1 && shown.starts_with('0'));
    asked == shown
        || (as_flag(asked).is_some() && flags())
        || numbers()
        || (is_mask && both(cpu_mask))
        || (shown.contains(['-', ',']) && both(cpu_list))
}

/// Parses a flag as the kernel does (kstrtobool), which looks at the first letter.
fn as_flag(word: &str) -> Option<bool> {
    match word {
        "1" => Some(true),
        "0" => Some(false),
        _ => match word.to_ascii_lowercase().as_str() {
            "y" | "yes" | "t" | "true" | "on" => Some(true),
            "n" | "no" | "f" | "false" | "off" => Some(false),
            _ => None,
        },
    }
}

/// Parses a number as the kernel does: 0x is hexadecimal, and a leading 0 octal (kstrtoll with base 0).
fn as_number(word: &str) -> Option<i128> {
    let (sign, digits) = word.strip_prefix('-').map_or((1, word), |rest| (-1, rest));
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => i128::from_str_radix(hex, 16).ok()?,
        None if digits.len() > 1 && digits.starts_with('0') => i128::from_str_radix(digits, 8).ok()?,
        None => digits.parse().ok()?,
    };
    Some(sign * number)
}

/// Normalizes hexadecimal words of 32 bits between commas, without leading zeros (bitmap_parse).
fn cpu_mask(text: &str) -> Option<String> {
    let words: Option<Vec<u32>> = text.split(',').map(|word| u32::from_str_radix(word, 16).ok()).collect();
    let words: Vec<u32> = words?.into_iter().skip_while(|word| *word == 0).collect();
    let Some((first, rest)) = words.split_first() else { return Some("0".to_owned()) };
    Some(
        std::iter::once(format!("{first:x}"))
            .chain(rest.iter().map(|word| format!("{word:08x}")))
            .collect::<Vec<_>>()
            .join(","),
    )
}

/// Returns the CPUs of a mask in the spelling of [`cpu_mask`].
pub(crate) fn mask_cpus(mask: &str) -> BTreeSet<u32> {
    let words = mask.split(',').rev().map(|word| u32::from_str_radix(word, 16).unwrap_or(0));
    let cpus =
        |(at, word): (usize, u32)| (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at as u32 * 32 + bit);
    words.enumerate().flat_map(cpus).collect()
}

/// Normalizes a list to numbers and ranges in ascending order, as short as possible.
fn cpu_list(text: &str) -> Option<String> {
    cpu_list::parse(text).map(|cpus| cpu_list::format(&cpus))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(text: &str) -> Values {
        text.parse().unwrap()
    }

    #[test]
    fn numbers_have_a_range_and_words() {
        let weight = values("1..10000 or max");
        assert_eq!(weight.check(" 100\n".trim(), ""), Ok("100".into()));
        assert_eq!(weight.check("max", ""), Ok("max".into()));
        assert_eq!(weight.check("0", "").unwrap_err(), "0 is below 1");
        assert_eq!(weight.check("10001", "").unwrap_err(), "10001 is above 10000");
        assert_eq!(values("0..").check("18446744073692774399", ""), Ok("18446744073692774399".into()));
    }

    #[test]
    fn several_numbers_are_counted() {
        let rmem = values("3 x 0..");
        assert_eq!(rmem.check("4096\t128K  16MiB", "bytes"), Ok("4096 131072 16777216".into()));
        assert!(rmem.check("4096 131072", "bytes").unwrap_err().starts_with("3 values separated by spaces are needed"));
        assert_eq!(rmem.canonical("4096\t131072\t6291456\n"), "4096 131072 6291456");
        assert_eq!(values("2 x 1000.. or max").check("max 100000", ""), Ok("max 100000".into()));
    }

    #[test]
    fn the_kernel_lists_some() {
        let scheduler = values("listed");
        let shown = "none [mq-deadline] kyber bfq \n";
        assert_eq!(scheduler.canonical(shown), "mq-deadline");
        assert_eq!(scheduler.choices(shown), ["none", "mq-deadline", "kyber", "bfq"]);
        assert_eq!(scheduler.canonical("bbr\n"), "bbr");
    }

    #[test]
    fn flags_have_many_spellings() {
        let flag = values("0|1");
        assert_eq!((flag.canonical("Y\n"), flag.check("off", "")), ("1".into(), Ok("0".into())));
        assert!(flag.check("2", "").is_err());
        assert_eq!(values("write back|write through").check("write back", ""), Ok("write back".into()));
    }

    #[test]
    fn processors_are_masks_and_lists() {
        assert_eq!(values("cpu mask").canonical("00000000,0000000f\n"), "f");
        assert_eq!(values("cpu mask").check("3,00000000", ""), Ok("3,00000000".into()));
        assert_eq!(values("cpu list").canonical("0,1,2,5-6"), "0-2,5-6");
        assert_eq!(values("cpu list").canonical("\n"), "");
        for wrong in ["3-1", "x", "0-99999999"] {
            assert!(values("cpu list").check(wrong, "").is_err(), "{wrong}");
        }
    }

    #[test]
    fn spellings_of_one_value_are_the_same() {
        let any = values("listed");
        for (asked, shown) in [
            ("1", "Y"),
            ("off", "N"),
            ("true", "1"),
            ("0x10", "16"),
            ("16", "0x10"),
            ("010", "8"),
            ("+5", "5"),
            ("1M", "1048576"),
            ("f", "00000000,0000000f"),
            ("0,1,2", "0-2"),
            ("4096\t1", "4096 1"),
            ("mq-deadline", "none [mq-deadline]"),
        ] {
            assert!(any.same(asked, shown), "{asked} {shown}");
        }
        for (asked, shown) in [
            ("1", "N"),
            ("2", "4"),
            ("2", "Y"),
            ("", "0"),
            ("0", ""),
            ("10", "a"),
            ("1 2", "1"),
            ("none", "N"),
            ("1", "11"),
        ] {
            assert!(!any.same(asked, shown), "{asked} {shown}");
        }
        assert!(!values("0..").same("2", "4"));
        assert!(values("1..10000").same("200", "default 200\n8:0 50\n"));
    }

    #[test]
    fn no_line_is_smuggled_in() {
        assert!(values("text").check("fq\nkernel.core_pattern = |/bin/sh", "").is_err());
    }

    proptest! {
        #[test]
        fn what_was_checked_is_canonical(text in "[-0-9a-f, ]{0,20}") {
            for values in ["0..", "3 x 0..", "cpu mask", "cpu list", "text", "0|1"].map(values) {
                if let Ok(checked) = values.check(&text, "") {
                    prop_assert_eq!(values.canonical(&checked), checked);
                }
            }
        }
    }
}
