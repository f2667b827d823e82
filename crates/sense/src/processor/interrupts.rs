//! /proc/interrupts: interrupts by line and processor, and the devices behind each line.
//! Documentation/filesystems/proc.rst, section 1.2.

use super::per_cpu;
use crate::{Miss, Root, Source};
use whyslow_model::catalogue::Irq;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::interrupts;

const PATH: &str = "proc/interrupts";

/// Reads /proc/interrupts.
pub(super) struct Interrupts;

impl Source for Interrupts {
    fn name(&self) -> &'static str {
        PATH
    }

    fn tells(&self) -> &'static str {
        "interrupts by line, device and CPU"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        parse(&root.kept_text(PATH)?, &mut out.processor.irq)
    }
}

/// Parses /proc/interrupts.
pub(super) fn parse(text: &str, rows: &mut Vec<Irq>) -> Result<(), Miss> {
    per_cpu::parse(text, PATH, |line, counts, description| interrupts::take(line, counts, description, rows))
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
}
