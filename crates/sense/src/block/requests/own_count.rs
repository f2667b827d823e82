//! Compares the programs' count with the kernel's own count of requests. On an unknown kernel, an object may load without an
//! error and yet count no requests.

use super::NAME;
use crate::block::{device, diskstats};
use crate::{Root, SourceError};
use whyslow_model::snapshot::Snapshot;

/// This many missed requests are no accident. The kernel alone counts requests in flight while the programs are attached.
const MANY: u64 = 1000;

/// The kernel's count when the programs were attached.
pub(super) struct OwnCount {
    before: u64,
    /// True once the programs have counted a request.
    confirmed: bool,
}

impl OwnCount {
    pub(super) fn new(root: &Root) -> Self {
        Self { before: requests(root), confirmed: false }
    }

    /// Fails if the programs have counted none of many requests.
    pub(super) fn compare(&mut self, root: &Root, counted: u64) -> Result<(), SourceError> {
        self.confirmed |= counted > 0;
        if self.confirmed {
            return Ok(());
        }
        match requests(root).saturating_sub(self.before) {
            missed if missed >= MANY => Err(SourceError::Failed(format!(
                "BPF {NAME}: none of {missed} requests in /proc/diskstats was counted: this kernel differs from those it was made for"
            ))),
            _ => Ok(()),
        }
    }
}

/// Counts requests to disks that have a queue. Other devices, such as those of the device mapper, pass requests on.
fn requests(root: &Root) -> u64 {
    let mut out = Snapshot::default();
    // If diskstats cannot be read, there is nothing to compare with.
    let _ = diskstats::read(root, &mut out);
    let counts = out.block.disk.iter().map(|disk| {
        let count: u64 = [disk.reads.get(), disk.writes.get()].into_iter().flatten().sum();
        (&disk.device, count)
    });
    let queued = |disk: &str| root.at(format!("sys/block/{}/mq", device::entry(disk))).exists();
    counts.filter(|(disk, count)| *count > 0 && queued(disk)).map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    fn tree(reads: u64, writes: u64) -> CapturedTree {
        let line = |number: u64, name: &str| {
            format!("   8       {number} {name} {reads} 0 8 1 {writes} 0 8 1 0 1 2 0 0 0 0 0 0\n")
        };
        let text = format!("{}{}{}", line(0, "sda"), line(1, "sda1"), line(16, "dm-0"));
        CapturedTree::with_files(&[
            ("proc/diskstats", &text),
            ("sys/block/sda/mq/0/cpu_list", "0\n"),
            ("sys/block/dm-0/size", "8\n"),
        ])
    }

    #[test]
    fn programs_that_count_none_of_many_requests_are_found_out() {
        let mut check = OwnCount::new(&tree(100, 100).root());
        let later = tree(800, 500);
        let error = check.compare(&later.root(), 0).unwrap_err();
        assert!(error.why().contains("none of 1100 requests"), "{error:?}");
        assert_eq!(check.compare(&tree(500, 500).root(), 0), Ok(()), "too few to be sure");
        assert_eq!(check.compare(&later.root(), 1), Ok(()));
        assert_eq!(check.compare(&later.root(), 0), Ok(()), "a device that is gone takes its count along");
    }
}
