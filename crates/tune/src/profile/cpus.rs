//! Lists of CPUs in the notation of tuned's functions: numbers, ranges, masks (`0xf`), and exclusions (`^2`).

use crate::machine::Machine;
use std::collections::BTreeSet;
use whyslow_model::cpu_list::{self, MAX_CPUS};

/// Returns the CPUs of a list; empty if it is invalid.
pub(super) fn unpack(list: &str) -> BTreeSet<u32> {
    let (mut cpus, mut out) = (BTreeSet::new(), BTreeSet::new());
    let mut mask: Option<String> = None;
    for word in list.trim_matches(['\'', '"']).split(',').map(str::trim) {
        // Commas also separate the words of a mask.
        if let Some(hex) = mask.as_mut().filter(|_| !word.is_empty()) {
            hex.push_str(word);
        } else if let Some(hex) = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
            mask = Some(hex.to_owned());
        } else if let Some(range) = word.strip_prefix(['^', '!']) {
            out.extend(cpu_list::range(range).into_iter().flatten());
        } else if !word.is_empty() {
            match cpu_list::range(word) {
                Some(range) => cpus.extend(range),
                None => return BTreeSet::new(),
            }
        }
        if word.is_empty()
            && let Some(hex) = mask.take()
        {
            cpus.extend(of_mask(&hex));
        }
    }
    cpus.extend(mask.map(|hex| of_mask(&hex)).unwrap_or_default());
    cpus.into_iter().filter(|cpu| !out.contains(cpu)).collect()
}

/// Returns the CPUs of a hexadecimal mask.
pub(super) fn of_mask(hex: &str) -> Vec<u32> {
    let digits = hex.trim_start_matches("0x").chars().filter(|c| *c != ',').rev();
    let bits = |(place, digit): (usize, char)| {
        let digit = digit.to_digit(16).unwrap_or(0);
        let place = u32::try_from(place).unwrap_or(MAX_CPUS);
        (0..4).filter(move |bit| digit & (1 << bit) != 0).map(move |bit| place.saturating_mul(4) + bit)
    };
    digits.enumerate().flat_map(bits).filter(|cpu| *cpu < MAX_CPUS).collect()
}

pub(super) fn list(cpus: &BTreeSet<u32>) -> String {
    cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Returns the CPUs in a state: `online`, `present`.
pub(super) fn in_state(machine: &Machine, state: &str) -> BTreeSet<u32> {
    unpack(&machine.root().word(&format!("sys/devices/system/cpu/{state}")).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_masks_are_the_same_processors() {
        assert_eq!(list(&unpack("0-3,^2,8")), "0,1,3,8");
        assert_eq!(list(&unpack("0xf,00000001,,9")), "0,9,32,33,34,35");
        assert_eq!(list(&unpack("x")), "");
        assert_eq!(cpu_list::format(&unpack("1,2,3,7")), "1-3,7");
        assert_eq!(cpu_list::mask(&unpack("0-3,32")), "1,0000000f");
        assert_eq!(cpu_list::mask(&BTreeSet::new()), "0");
        assert_eq!(of_mask("0x3,00000000"), [32, 33]);
    }
}
