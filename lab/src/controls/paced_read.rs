//! A sequential read that the disk keeps up with.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "paced-read",
    what: "a large file is read from one end to the other at half the rate its disk can do",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let mut physics = Physics::new(Duration::from_micros(stage.dice.between(300, 800)), 8);
    physics.rate = stage.dice.between(60, 120) << 20;
    let mut disk = Disk::new(stage, 2 << 30, physics)?;
    disk.engage()?;
    let read = Launch::new("read").with("path", disk.device.node.display()).with("size", 256 << 10);
    read.with("rate", physics.rate * 4 / 10).start(stage)?;
    Ok(Expect::healthy())
}
