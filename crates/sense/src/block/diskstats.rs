//! /proc/diskstats: requests by block device and partition (Documentation/admin-guide/iostats.rst).

use super::device::entry;
use crate::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::catalogue::Disk;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::State;
use whyslow_proc::diskstats;

pub(super) const INFO: SourceInfo = SourceInfo::new("proc/diskstats", "requests by disk and partition");

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let text = root.polled_text(INFO.name)?;
    let mut result = Ok(());
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        match diskstats::row(line) {
            Some(row) if row.idle && is_empty(root, &row.disk.device) => {}
            Some(row) => {
                let identity = identity(root, &row.disk.device);
                out.block.disk.push(Disk { identity, ..row.disk });
            }
            None => result = Err(SourceError::malformed(INFO.name, line)),
        }
    }
    result
}

/// Whether a device has no capacity: a loop device or RAM disk that is not set up. A device that is set up keeps its row of
/// zeros, so that its first requests are measured.
fn is_empty(root: &Root, device: &str) -> bool {
    root.polled_number(&format!("sys/class/block/{}/size", entry(device))) == Some(0)
}

/// Reads a number that is unique since boot (Documentation/ABI/testing/sysfs-block: diskseq; since Linux 5.15).
fn identity(root: &Root, device: &str) -> State {
    let number = root.polled_number(&format!("sys/class/block/{}/diskseq", entry(device)));
    number.map(|number| number.to_string()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;
    use whyslow_model::window::Window;

    const NOW: &str =
        " 254 0 vda 30893 6976 4812754 11858 6561 15420 1398768 3609 2 5356 15735 3458 108 174352 254 358 13";

    fn sample(root: &Root) -> Snapshot {
        let mut s = Snapshot::default();
        assert_eq!(read(root, &mut s), Ok(()));
        s
    }

    #[test]
    fn a_malformed_line_is_reported_and_the_others_kept() {
        let tree = CapturedTree::with_files(&[(INFO.name, "8 0 sda x\n8 16 sdb 1 2 3 4 5 6 7 8 9 10 11\n")]);
        let mut s = Snapshot::default();
        assert_eq!(read(&tree.root(), &mut s), Err(SourceError::malformed(INFO.name, "8 0 sda x")));
        assert_eq!(s.block.disk.len(), 1);
    }

    #[test]
    fn an_idle_device_is_kept_unless_it_has_no_capacity() {
        let zeros = "0 0 0 0 0 0 0 0 0 0 0";
        let tree = CapturedTree::with_files(&[
            (INFO.name, &format!("7 0 loop0 {zeros}\n7 1 loop1 {zeros}\n8 0 sda {zeros}\n")),
            ("sys/class/block/loop0/size", "0\n"),
            ("sys/class/block/loop1/size", "2048\n"),
            ("sys/class/block/loop1/diskseq", "17\n"),
        ]);
        let s = sample(&tree.root());
        let identities: Vec<_> = s.block.disk.iter().map(|d| d.identity.get()).collect();
        assert_eq!(identities, [Some("17"), None]);
        let names: Vec<&str> = s.block.disk.iter().map(|d| &*d.device).collect();
        assert_eq!(names, ["loop1", "sda"]);
    }

    #[test]
    fn a_disk_plugged_in_between_samples_is_measured_from_its_first_reading() {
        let tree = CapturedTree::with_files(&[(INFO.name, NOW)]);
        let mut readings = vec![sample(&tree.root())];
        for reads in [0, 40] {
            tree.write(INFO.name, &format!("{NOW}\n8 0 sda {reads} 0 0 0 0 0 0 0 0 0 0\n"));
            readings.push(sample(&tree.root()));
        }
        for (second, s) in (1..).zip(&mut readings) {
            s.boot_ns = second * 1_000_000_000;
            s.sort();
        }
        let window = Window::new(readings);
        let rates: Vec<_> = window.changes::<Disk>().iter().map(|c| c.rate(|d| d.reads)).collect();
        assert_eq!(rates, [Some(40.0), Some(0.0)]);
    }

    #[test]
    fn the_live_machine_has_disks() {
        assert!(!sample(&Root::live()).block.disk.is_empty());
    }
}
