//! Little read-ahead that is enough.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "small-read-ahead",
    what: "a file is read from one end to the other with little read-ahead, no faster than its disk can follow",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let latency = Duration::from_micros(stage.dice.between(500, 2000));
    let mut disk = Disk::new(stage, 2 << 30, Physics::new(latency, 8))?;
    let read_ahead = stage.dice.pick(&[16, 32, 64]) << 10;
    disk.device.read_ahead(stage, read_ahead)?;
    disk.engage()?;
    // What is read ahead comes while what was read before is being looked at: a quarter of the stream's ceiling.
    let rate = (read_ahead as f64 / latency.as_secs_f64() / 4.0) as u64;
    Launch::new("read")
        .with("path", disk.device.node.display())
        .with("size", 4 << 10)
        .with("rate", rate)
        .start(stage)?;
    Ok(Expect::healthy())
}
