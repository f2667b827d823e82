//! How much a disk of a guest may do: QEMU holds requests back that are more (docs/throttle.txt of its sources).

use whyslow_model::catalogue::GuestDisk;
use whyslow_model::value::State;

/// What is limited, by the names of one source: all requests, reads and writes a second, then all bytes, those read and those written.
pub(super) type LimitNames = [&'static str; 6];

/// The limits of a disk, in the order of [`LimitNames`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoLimits {
    /// The disks of the same group share one budget.
    group: Option<String>,
    rates: [Option<u64>; 6],
}

impl IoLimits {
    /// The limits under these names; 0 means unlimited.
    pub(super) fn of(names: LimitNames, group: Option<&str>, number: impl Fn(&str) -> Option<u64>) -> Self {
        let rates = names.map(|name| number(name).filter(|limit| *limit > 0));
        let group = group.filter(|group| !group.is_empty() && rates != [None; 6]).map(str::to_owned);
        Self { group, rates }
    }

    /// Whether there are any.
    pub(super) fn is_some(&self) -> bool {
        self.rates != [None; 6]
    }

    /// Makes these the limits of a disk.
    pub fn set(&self, disk: &mut GuestDisk) {
        let [operations, reads, writes, bytes, read_bytes, write_bytes] = self.rates;
        disk.limit_group = State::from(self.group.as_deref());
        (disk.limit_operations, disk.limit_reads, disk.limit_writes) = (operations.into(), reads.into(), writes.into());
        (disk.limit_bytes, disk.limit_read_bytes, disk.limit_write_bytes) =
            (bytes.into(), read_bytes.into(), write_bytes.into());
    }
}
