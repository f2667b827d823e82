//! Paced readers that get everything they ask for.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "paced-parallel",
    what: "many threads read blocks of one size at a steady rate, from a disk that serves more at once than they ask for",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let latency = Duration::from_micros(stage.dice.between(2000, 5000));
    let mut disk = Disk::new(stage, 2 << 30, Physics::new(latency, 48))?;
    disk.engage()?;
    let jobs = stage.dice.between(6, 16);
    // Small ones, and ones so large that a limit might have cut them.
    let size = stage.dice.pick(&[4, 8, 64, 128]) << 10;
    // Each thread waits for the disk this part of the time, in per cent.
    let part = stage.dice.between(30, 50);
    let rate = jobs * size * part * 10_000 / latency.as_micros() as u64;
    let read = Launch::new("read").with("path", disk.device.node.display()).with("jobs", jobs).with("size", size);
    read.with("rate", rate).flag("random").flag("direct").start(stage)?;
    Ok(Expect::healthy())
}
