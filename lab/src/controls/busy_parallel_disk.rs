//! A disk that is 100 % busy and healthy.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// A disk that is 100 % busy and healthy.
pub const TRIAL: Trial = Trial {
    name: "busy-parallel",
    what: "a disk of many channels is never idle, and no request waits for another",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let latency = Duration::from_micros(stage.dice.between(500, 900));
    let mut disk = Disk::new(stage, 2 << 30, Physics::new(latency, 64))?;
    disk.engage()?;
    let (jobs, size) = (stage.dice.between(6, 10), 16 << 10);
    // Each job is busy a third of the time: together the disk is hardly ever idle, and nobody waits in line.
    let rate = jobs * size * 1_000_000 / (3 * latency.as_micros() as u64);
    let read = Launch::new("read").with("path", disk.device.node.display()).with("jobs", jobs).with("size", size);
    read.with("rate", rate).flag("random").flag("direct").start(stage)?;
    Ok(Expect::healthy())
}
