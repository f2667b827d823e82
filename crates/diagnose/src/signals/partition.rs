//! Where partitions start.

use crate::signal::{Entity, signals};
use whyslow_model::catalogue::Partition;
use whyslow_model::diagnosis::Subject;
use whyslow_model::window::Window;

/// The block that disks of today, and arrays, write without reading first.
const BLOCK: f64 = 4096.0;

signals! { p: &Partition;
    "part_start.bytes" "bytes" "from the disk's first byte to the partition's", "start x 512", "/sys/block/*/*/start, fdisk" => p.start.get();
    "part_start.off" "bytes" "how far that is beyond a multiple of 4 KiB", "start mod 4096", "/sys/block/*/*/start, fdisk" => p.start.get().map(|s| s % BLOCK);
}

/// Every partition whose start is known.
pub fn entities(window: &Window) -> Vec<Entity> {
    let partitions = window.newest::<Partition>();
    partitions.values().map(|p| Entity::new(Subject::new("partition", p.device.to_string()), read(p))).collect()
}
