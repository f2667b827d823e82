//! The request rate is at its ceiling while the throughput is small.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "disk.small_io",
    what: "many small requests are at the request rate a disk can do, while the bytes are few",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let channels = stage.dice.between(2, 6);
    let latency = Duration::from_micros(stage.dice.between(2000, 5000));
    let mut disk = Disk::new(stage, 2 << 30, Physics::new(latency, channels))?;
    disk.engage()?;
    let jobs = channels * stage.dice.between(4, 8);
    let size = stage.dice.pick(&[2, 4]) << 10;
    let read = Launch::new("read").with("path", disk.device.node.display()).with("jobs", jobs).with("size", size);
    let read = read.flag("direct").start(stage)?;
    let subjects = [Who::device(&disk.device.name), Who::Process(read.pid)];
    Ok(Expect::first("disk.small_io", subjects)
        .by([Who::Process(read.pid)])
        .never(&["disk.depth_one", "disk.throttled"]))
}
