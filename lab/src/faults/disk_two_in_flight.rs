//! Two requests in flight on a disk that serves a dozen: it could do more, and is not saturated.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "disk.two_in_flight",
    what: "two threads wait for each request in turn on a disk of twelve or more channels (disk.depth_one)",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let latency = Duration::from_millis(stage.dice.between(3, 8));
    let channels = stage.dice.between(12, 32);
    let mut disk = Disk::new(stage, 2 << 30, Physics::new(latency, channels))?;
    disk.engage()?;
    let size = stage.dice.pick(&[4, 32, 128]) << 10;
    let read = Launch::new("read").with("path", disk.device.node.display()).with("jobs", 2).with("size", size);
    let read = read.flag("random").flag("direct").start(stage)?;
    let never = ["disk.saturated", "disk.small_io", "disk.request_split", "disk.shared", "disk.slow_device"];
    let subjects = [Who::device(&disk.device.name), Who::Process(read.pid)];
    Ok(Expect::first("disk.depth_one", subjects).by([Who::Process(read.pid)]).never(&never))
}
