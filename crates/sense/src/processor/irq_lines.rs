//! /proc/irq and /sys/bus/pci/devices/*/msi_irqs: the CPUs that handle the interrupt lines of a PCI device
//! (Documentation/core-api/irq/irq-affinity.rst, Documentation/ABI/testing/sysfs-bus-pci).

use crate::{Root, SourceError, SourceInfo};
use whyslow_model::catalogue::IrqLine;
use whyslow_model::snapshot::Snapshot;

const DEVICES: &str = "sys/bus/pci/devices";

pub(super) const INFO: SourceInfo = SourceInfo::new("proc/irq", "the CPUs that devices interrupt").slow();

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    for bus in root.list(DEVICES) {
        out.processor.irq_line.extend(lines(root, &bus).into_iter().map(|line| IrqLine {
            bus: bus.as_str().into(),
            cpus: cpus(root, &line).into(),
            ..IrqLine::new(line.into())
        }));
    }
    Ok(())
}

/// Lists the MSI lines of a device. Without MSI a device has one line, which it may share with others and which is not
/// attributed.
fn lines(root: &Root, bus: &str) -> Vec<String> {
    root.list(&format!("{DEVICES}/{bus}/msi_irqs"))
}

/// Returns the CPUs that handle a line: those that the kernel chose from the allowed ones, if it reports them, or all allowed
/// ones.
fn cpus(root: &Root, line: &str) -> Option<String> {
    let list = |file: &str| root.word(&format!("proc/irq/{line}/{file}")).filter(|list| !list.is_empty());
    list("effective_affinity_list").or_else(|| list("smp_affinity_list"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn lines_belong_to_a_device_and_go_to_cpus() {
        let tree = CapturedTree::with_files(&[
            ("sys/bus/pci/devices/0000:00:02.0/msi_irqs/35", "msix\n"),
            ("sys/bus/pci/devices/0000:00:02.0/msi_irqs/36", "msix\n"),
            ("sys/bus/pci/devices/0000:00:03.0/vendor", "0x1af4\n"),
            ("proc/irq/35/effective_affinity_list", "1\n"),
            ("proc/irq/35/smp_affinity_list", "0-1\n"),
            ("proc/irq/36/effective_affinity_list", "\n"),
            ("proc/irq/36/smp_affinity_list", "0-1\n"),
        ]);
        let mut out = Snapshot::default();
        assert_eq!(read(&tree.root(), &mut out), Ok(()));
        let rows = &out.processor.irq_line;
        let seen: Vec<_> = rows.iter().map(|r| (&*r.line, r.bus.get(), r.cpus.get())).collect();
        assert_eq!(seen, [("35", Some("0000:00:02.0"), Some("1")), ("36", Some("0000:00:02.0"), Some("0-1"))]);
    }
}
