//! I/O limits of a guest's disk: QEMU delays requests that exceed them (docs/throttle.txt of its sources).

use whyslow_model::catalogue::GuestDisk;
use whyslow_model::value::State;

/// Names of the limits in one source: all requests, reads and writes per second, then all bytes, bytes read and bytes
/// written.
pub(super) type LimitNames = [&'static str; 6];

/// The limits of a disk, in the order of [`LimitNames`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoLimits {
    /// Group of disks that share one budget.
    group: Option<String>,
    rates: [Option<u64>; 6],
}

impl IoLimits {
    /// Reads the limits with these names; 0 means unlimited.
    pub(super) fn read(names: LimitNames, group: Option<&str>, number: impl Fn(&str) -> Option<u64>) -> Self {
        let rates = names.map(|name| number(name).filter(|limit| *limit > 0));
        let group = group.filter(|group| !group.is_empty() && rates != [None; 6]).map(str::to_owned);
        Self { group, rates }
    }

    /// Returns whether there are any limits.
    pub(super) fn is_some(&self) -> bool {
        self.rates != [None; 6]
    }

    /// Sets these limits in the row of a disk.
    pub fn set(&self, disk: &mut GuestDisk) {
        let [operations, reads, writes, bytes, read_bytes, write_bytes] = self.rates;
        disk.limit_group = State::from(self.group.as_deref());
        (disk.limit_operations, disk.limit_reads, disk.limit_writes) = (operations.into(), reads.into(), writes.into());
        (disk.limit_bytes, disk.limit_read_bytes, disk.limit_write_bytes) =
            (bytes.into(), read_bytes.into(), write_bytes.into());
    }
}
