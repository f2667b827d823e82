//! /proc/interrupts and /proc/softirqs, which have the same format, a column for each CPU (Documentation/filesystems/proc.rst,
//! section 1.2); and /proc/net/softnet_stat, the packet backlog that softirqs process, a line for each CPU.

use crate::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::interrupts::{self, processors, split, take_softirqs};
use whyslow_proc::net;

pub(super) const IRQS: SourceInfo = SourceInfo::new("proc/interrupts", "interrupts by line, device and CPU");
pub(super) const SOFTIRQS: SourceInfo = SourceInfo::new("proc/softirqs", "softirqs by vector and CPU");
pub(super) const SOFTNET: SourceInfo =
    SourceInfo::new("proc/net/softnet_stat", "packets dropped by the backlog, and work left undone");

pub(super) fn read_irqs(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let rows = &mut out.processor.irq;
    parse(&root.polled_text(IRQS.name)?, IRQS.name, |line, counts, description| {
        interrupts::take(line, counts, description, rows);
    })
}

pub(super) fn read_softirqs(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let rows = &mut out.processor.softirq;
    parse(&root.polled_text(SOFTIRQS.name)?, SOFTIRQS.name, |vector, counts, _| take_softirqs(vector, counts, rows))
}

pub(super) fn read_softnet(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    for (line_number, line) in (0..).zip(root.polled_text(SOFTNET.name)?.lines()) {
        let row = net::softnet(line, line_number).ok_or_else(|| SourceError::malformed(SOFTNET.name, line))?;
        out.processor.softnet.push(row);
    }
    Ok(())
}

/// Calls `row` with the name, the counts by CPU and the trailing text of each line that has a column for every CPU. Skips lines
/// with fewer columns (`ERR:`, `MIS:`), which count for the whole machine.
fn parse(text: &str, path: &str, mut row: impl FnMut(&str, &[(u32, u64)], &str)) -> Result<(), SourceError> {
    let mut lines = text.lines();
    let header = lines.next().unwrap_or_default();
    let cpus = processors(header).ok_or_else(|| SourceError::malformed(path, header))?;
    let mut counts = Vec::with_capacity(cpus.len());
    for line in lines {
        let (name, rest) = split(line, &cpus, &mut counts).ok_or_else(|| SourceError::malformed(path, line))?;
        if counts.len() == cpus.len() {
            row(name, &counts, rest);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;
    use whyslow_model::catalogue::Irq;
    use whyslow_model::key::PerCpu;

    fn irqs(text: &str) -> Vec<Irq> {
        let mut out = Snapshot::default();
        assert_eq!(read_irqs(&CapturedTree::with_files(&[(IRQS.name, text)]).root(), &mut out), Ok(()));
        out.processor.irq.clone()
    }

    #[test]
    fn columns_belong_to_the_cpus_the_header_names() {
        let rows = irqs(
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
    fn on_one_cpu_a_count_without_a_description_is_the_machines() {
        assert!(irqs("           CPU0       \nERR:          9\nMIS:          1\n").is_empty());
    }

    #[test]
    fn softirqs_have_a_row_for_each_vector_and_cpu_that_counted() {
        let text =
            "          CPU0       CPU1       \n    HI:          0          0\n    NET_RX:       1616       1723\n";
        let mut out = Snapshot::default();
        assert_eq!(read_softirqs(&CapturedTree::with_files(&[(SOFTIRQS.name, text)]).root(), &mut out), Ok(()));
        let rows = out.processor.softirq.clone();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].vector, PerCpu { name: "NET_RX".into(), cpu: 1 });
        assert_eq!(rows[1].count.get(), Some(1723));
    }

    #[test]
    fn each_cpu_has_a_line_of_softnet() {
        let line = "00000001 0 0 0 0 0 0 0 0 00000003\n";
        let mut out = Snapshot::default();
        let tree = CapturedTree::with_files(&[(SOFTNET.name, &[line, line, "00000001 xyz\n"].concat())]);
        let outcome = read_softnet(&tree.root(), &mut out);
        assert_eq!(outcome, Err(SourceError::malformed(SOFTNET.name, "00000001 xyz")));
        assert_eq!((out.processor.softnet.len(), out.processor.softnet[1].cpu), (2, 1));
    }
}
