//! More requests than the device can finish: the queue stands.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "disk.saturated",
    what: "more readers than a disk has channels ask for large blocks at random places",
    quick: true,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let channels = stage.dice.between(2, 6);
    let latency = Duration::from_millis(stage.dice.between(4, 10));
    let mut disk = Disk::new(stage, 2 << 30, Physics::new(latency, channels))?;
    disk.engage()?;
    let jobs = channels * stage.dice.between(4, 8);
    let size = stage.dice.pick(&[128, 256]) << 10;
    let read = Launch::new("read").with("path", disk.device.node.display()).with("jobs", jobs).with("size", size);
    let read = read.flag("random").flag("direct").start(stage)?;
    let never = ["disk.depth_one", "disk.small_io", "disk.throttled", "disk.slow_device", "disk.readahead"];
    Ok(Expect::first("disk.saturated", [Who::device(&disk.device.name)]).by([Who::Process(read.pid)]).never(&never))
}
