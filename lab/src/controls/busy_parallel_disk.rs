//! A disk that is 100 % busy and healthy.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "busy-parallel",
    what: "a disk of many channels always has requests in flight, none of which waits for another, nor any thread for them",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let latency = Duration::from_micros(stage.dice.between(1500, 3000));
    let mut disk = Disk::new(stage, 2 << 30, Physics::new(latency, 64))?;
    disk.engage()?;
    let read = Launch::new("flow").with("path", disk.device.node.display()).with("size", 16 << 10);
    read.with("rate", stage.dice.between(2500, 4000)).start(stage)?;
    Ok(Expect::healthy())
}
