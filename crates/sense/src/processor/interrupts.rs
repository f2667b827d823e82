//! /proc/interrupts: interrupts by line and processor, and the devices behind each line.
//! Documentation/filesystems/proc.rst, section 1.2; the columns are written by `show_interrupts` in kernel/irq/proc.c
//! and `arch_show_interrupts` of each architecture.

use super::per_cpu;
use crate::text::word;
use crate::{Miss, Root, Source};
use whyslow_model::catalogue::Irq;
use whyslow_model::key::PerCpu;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Name, State};

const PATH: &str = "proc/interrupts";

/// Reads /proc/interrupts.
pub(super) struct Interrupts;

impl Source for Interrupts {
    fn name(&self) -> &'static str {
        PATH
    }

    fn tells(&self) -> &'static str {
        "interrupts by line, device and processor"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        parse(&root.kept_text(PATH)?, &mut out.processor.irq)
    }
}

/// Parses /proc/interrupts. Pairs of line and processor that stand at zero get no row: on a large machine nearly all do.
pub(super) fn parse(text: &str, rows: &mut Vec<Irq>) -> Result<(), Miss> {
    per_cpu::parse(text, PATH, |line, counts, description| {
        // A line without a description counts for the machine as a whole; with one processor only this tells it apart.
        if description.is_empty() || counts.iter().all(|&(_, count)| count == 0) {
            return;
        }
        let name = Name::from(line);
        let device = devices(line, description).map(State::from).unwrap_or_default();
        for &(cpu, count) in counts.iter().filter(|(_, count)| *count > 0) {
            let line = PerCpu { name: name.clone(), cpu };
            rows.push(Irq { line, count: count.into(), device: device.clone() });
        }
    })
}

/// The devices behind a line. A numbered line says chip, number within it and trigger before it names them
/// (`IO-APIC 5-edge ACPI:Ged`, `GICv3 27 Level arch_timer`); a lettered one says in words what it counts.
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

/// Cuts the next word off where it is such a one.
fn skip_if(text: &mut &str, such: impl Fn(&str) -> bool) {
    let mut rest = *text;
    if word(&mut rest).is_some_and(such) {
        *text = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Vec<Irq> {
        let mut rows = Vec::new();
        parse(text, &mut rows).unwrap();
        rows
    }

    #[test]
    fn columns_belong_to_the_processors_the_header_names() {
        let rows = rows(
            "           CPU0       CPU2       \n\
             \u{20}24:          1          0  IO-APIC   5-edge      ACPI:Ged\n\
             \u{20}36:          3      33213 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0\n\
             LOC:      26378          0   Local timer interrupts\n\
             ERR:          9\n",
        );
        let seen: Vec<_> = rows.iter().map(|r| (&*r.line.name, r.line.cpu, r.count.get(), r.device.get())).collect();
        assert_eq!(
            seen,
            [
                ("24", 0, Some(1), Some("ACPI:Ged")),
                ("36", 0, Some(3), Some("virtio1-req.0")),
                ("36", 2, Some(33213), Some("virtio1-req.0")),
                ("LOC", 0, Some(26378), Some("Local timer interrupts")),
            ]
        );
    }

    #[test]
    fn with_one_processor_a_count_without_description_is_not_its_own() {
        assert!(rows("           CPU0       \nERR:          9\nMIS:          1\n").is_empty());
    }

    #[test]
    fn devices_are_found_behind_every_kind_of_chip() {
        assert_eq!(devices("16", "IO-APIC  16-fasteoi   ehci_hcd:usb1, 3w-9xxx"), Some("ehci_hcd:usb1, 3w-9xxx"));
        assert_eq!(devices("27", "GICv3  27 Level     arch_timer"), Some("arch_timer"));
        assert_eq!(devices("0", "XT-PIC      timer"), Some("timer"));
        assert_eq!(devices("9", "IO-APIC   9-fasteoi"), None);
    }
}
