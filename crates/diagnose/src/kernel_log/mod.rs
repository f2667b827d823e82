//! What the kernel's log says of parts that fail: of SCSI disks and hosts since 2.4, ATA, NVMe, and arrays.

pub mod array;
mod event;
mod parser;
mod sense;
mod signs;

pub use event::{Event, Kind};
pub use parser::{Errors, parse};
pub use signs::{Signs, count};

use std::collections::BTreeMap;
use whyslow_model::catalogue::LogLine;
use whyslow_model::window::Window;

/// The disk of a partition: `sda3` lies on `sda`.
pub fn disk_of(device: &str) -> &str {
    let disk = device.trim_end_matches(|c: char| c.is_ascii_digit());
    if ["sd", "hd", "vd"].iter().any(|family| disk.starts_with(family)) { disk } else { device }
}

/// The lines logged in the window, in their order.
pub fn lines(window: &Window) -> Vec<&LogLine> {
    let mut lines: BTreeMap<u64, &LogLine> = BTreeMap::new();
    for s in window.snapshots() {
        lines.extend(s.kernel.log.iter().map(|l| (l.sequence, l)));
    }
    lines.into_values().collect()
}

/// The time of a line as a person reads it: as it was printed, else since boot.
pub fn time(line: &LogLine) -> Option<String> {
    let since_boot = || line.time.get().map(|ns| format!("{:.3} s after boot", ns as f64 / 1e9));
    line.printed.get().map(str::to_owned).or_else(since_boot)
}
