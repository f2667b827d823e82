//! Lists of CPUs and NUMA nodes as the kernel writes and reads them: `0-3,8` (bitmap_parselist of lib/bitmap-str.c).

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Limit on the number of CPUs: no kernel has more (NR_CPUS of arch/x86/Kconfig).
pub const MAX_CPUS: u32 = 8192;

/// Parses a list; `None` if the text is not a list.
pub fn parse(text: &str) -> Option<BTreeSet<u32>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    Some(parts.map(range).collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Parses one part of a list: `8`, `0-3`.
pub fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last && last < MAX_CPUS).then_some(first..=last)
}

/// Formats numbers as the shortest list.
pub fn format(numbers: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let words = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(words).collect::<Vec<_>>().join(",")
}

/// Formats numbers as a hexadecimal mask in words of 32 bits, as the kernel reads and prints it: `f`, `1,00000000`
/// (lib/vsprintf.c: bitmap_string).
pub fn mask(cpus: &BTreeSet<u32>) -> String {
    let words = cpus.last().map_or(1, |last| last / 32 + 1);
    let word =
        |number: u32| cpus.iter().filter(|cpu| **cpu / 32 == number).fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32));
    let mut text: Vec<String> = (0..words).rev().map(|number| format!("{:08x}", word(number))).collect();
    text[0] = text[0].trim_start_matches('0').to_owned();
    let mask = text.join(",");
    if mask.is_empty() { "0".to_owned() } else { mask }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_as_the_kernel_prints_them() {
        let of = |numbers: &[u32]| mask(&numbers.iter().copied().collect());
        assert_eq!(of(&[0]), "1");
        assert_eq!(of(&[1, 2, 3]), "e");
        assert_eq!(of(&[0, 31, 32, 64]), "1,00000001,80000001");
    }

    #[test]
    fn lists_are_read_and_written_as_short_as_can_be() {
        for (text, list) in [("0,1,2,5-6", "0-2,5-6"), ("8, 3-3,", "3,8"), ("", ""), ("0-8191", "0-8191")] {
            assert_eq!(parse(text).map(|numbers| format(&numbers)).as_deref(), Some(list), "{text}");
        }
        for wrong in ["x", "3-1", "-1", "1-", "0-8192", "1;2"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
