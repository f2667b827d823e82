//! Read-ahead too small for a stream.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "disk.readahead",
    what: "a file is read from one end to the other with little read-ahead, on a disk that takes a while for each request",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let latency = Duration::from_micros(stage.dice.between(2000, 6000));
    let channels = stage.dice.between(8, 32);
    let mut disk = Disk::new(stage, 64 << 30, Physics::new(latency, channels))?;
    let read_ahead = stage.dice.pick(&[16, 32, 64]) << 10;
    disk.device.read_ahead(stage, read_ahead)?;
    disk.engage()?;
    let size = stage.dice.pick(&[4, 8]) << 10;
    let read = Launch::new("read").with("path", disk.device.node.display()).with("size", size).start(stage)?;
    let never = ["disk.saturated", "disk.small_io", "disk.depth_one", "disk.throttled", "mem.cache_thrash"];
    Ok(Expect::first("disk.readahead", [Who::device(&disk.device.name)]).by([Who::Process(read.pid)]).never(&never))
}
