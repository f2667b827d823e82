//! A limit cuts requests.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "disk.request_split",
    what: "large blocks are read from a disk whose queue takes only a small part of one at a time",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let latency = Duration::from_micros(stage.dice.between(2000, 5000));
    let mut disk = Disk::new(stage, 2 << 30, Physics::new(latency, 32))?;
    let limit = stage.dice.pick(&[32, 64]) << 10;
    disk.device.largest_request(stage, limit)?;
    disk.engage()?;
    let size = limit * stage.dice.pick(&[4, 8]);
    let read = Launch::new("read").with("path", disk.device.node.display()).with("size", size);
    read.flag("random").flag("direct").start(stage)?;
    let never = ["disk.saturated", "disk.small_io", "disk.throttled"];
    Ok(Expect::first("disk.request_split", [Who::device(&disk.device.name)]).never(&never))
}
