//! Busy all the time with one request: the device could do more.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "disk.depth_one",
    what: "one synchronous reader waits for each request in turn on a disk of many channels",
    quick: true,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let latency = Duration::from_millis(stage.dice.between(2, 6));
    let channels = stage.dice.between(8, 32);
    let mut disk = Disk::new(stage, 2 << 30, Physics::new(latency, channels))?;
    disk.engage()?;
    let size = stage.dice.pick(&[8, 16, 64]) << 10;
    let read = Launch::new("read").with("path", disk.device.node.display()).with("size", size);
    let read = match stage.dice.pick(&[true, false]) {
        true => read.flag("random").flag("direct").start(stage)?,
        // Through the page cache, with requests that are as large as what is read ahead, and yet not read ahead.
        false => {
            disk.device.read_ahead(stage, size)?;
            read.flag("random").start(stage)?
        }
    };
    let subjects = [Who::device(&disk.device.name), Who::Process(read.pid)];
    let never = ["disk.saturated", "disk.small_io", "disk.throttled", "disk.readahead"];
    Ok(Expect::first("disk.depth_one", subjects).by([Who::Process(read.pid)]).never(&never))
}
