//! /proc/interrupts and /proc/softirqs: interrupts by line and CPU with the devices of each line, softirqs by vector and CPU.
//! Documentation/filesystems/proc.rst, section 1.2; the columns are written by `show_interrupts` in kernel/irq/proc.c
//! and `arch_show_interrupts` of each architecture. Both files have a header with the CPUs, then lines of `NAME: count ...` with
//! a column for each.

use crate::text::{number, numbered, word};
use whyslow_model::catalogue::{Irq, Softirq};
use whyslow_model::key::PerCpu;
use whyslow_model::value::{Name, State};

/// Parses the CPUs in a header. It leaves out offline ones, so columns are not CPU numbers. `None` if it is not such a
/// header.
pub fn processors(mut header: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    while let Some(name) = word(&mut header) {
        cpus.push(numbered(name, "CPU")?);
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// Splits a line into its name and the text after its columns, and puts the counts by CPU into `counts`. There are
/// fewer counts than CPUs if a line counts for the whole machine (`ERR:`, `MIS:`) or is truncated.
pub fn split<'t>(line: &'t str, cpus: &[u32], counts: &mut Vec<(u32, u64)>) -> Option<(&'t str, &'t str)> {
    let (name, mut rest) = line.split_once(':')?;
    counts.clear();
    counts.extend(cpus.iter().map_while(|&cpu| Some((cpu, number(&mut rest)?))));
    Some((name.trim_ascii(), rest.trim_ascii()))
}

/// Parses a line's counts and description. Adds no row for pairs of line and CPU at zero: on a large machine nearly all
/// are.
pub fn take(line: &str, counts: &[(u32, u64)], description: &str, rows: &mut Vec<Irq>) {
    // A line without a description counts for the whole machine; with one CPU only the missing description shows that.
    if description.is_empty() || counts.iter().all(|&(_, count)| count == 0) {
        return;
    }
    let name = Name::from(line);
    let device = devices(line, description).map(State::from).unwrap_or_default();
    for &(cpu, count) in counts.iter().filter(|(_, count)| *count > 0) {
        let line = PerCpu { name: name.clone(), cpu };
        rows.push(Irq { line, count: count.into(), device: device.clone() });
    }
}

/// Returns the devices of a line. In a numbered line they follow the chip, the number within the chip and the trigger
/// (`IO-APIC 5-edge ACPI:Ged`, `GICv3 27 Level arch_timer`); a lettered line has a description.
fn devices<'t>(line: &str, description: &'t str) -> Option<&'t str> {
    if !line.bytes().all(|b| b.is_ascii_digit()) {
        return Some(description);
    }
    let mut rest = description;
    let _chip = word(&mut rest);
    skip_if(&mut rest, |w| w.starts_with(|c: char| c.is_ascii_digit()));
    skip_if(&mut rest, |w| w == "Edge" || w == "Level");
    let devices = rest.trim_ascii();
    (!devices.is_empty()).then_some(devices)
}

/// Cuts off the next word if it matches.
fn skip_if(text: &mut &str, such: impl Fn(&str) -> bool) {
    let mut rest = *text;
    if word(&mut rest).is_some_and(such) {
        *text = rest;
    }
}

/// Parses the counts of a vector. Leaves out zeros: there is a column for every possible CPU.
pub fn take_softirqs(vector: &str, counts: &[(u32, u64)], rows: &mut Vec<Softirq>) {
    let name = Name::from(vector);
    for &(cpu, count) in counts.iter().filter(|(_, count)| *count > 0) {
        rows.push(Softirq { vector: PerCpu { name: name.clone(), cpu }, count: count.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_behind_every_kind_of_chip() {
        assert_eq!(devices("16", "IO-APIC  16-fasteoi   ehci_hcd:usb1, 3w-9xxx"), Some("ehci_hcd:usb1, 3w-9xxx"));
        assert_eq!(devices("27", "GICv3  27 Level     arch_timer"), Some("arch_timer"));
        assert_eq!(devices("0", "XT-PIC      timer"), Some("timer"));
        assert_eq!(devices("9", "IO-APIC   9-fasteoi"), None);
    }
}
