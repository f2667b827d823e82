//! A flush now and then.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial =
    Trial { name: "slow-logger", what: "a program makes one record durable each second", quick: false, make };

fn make(stage: &mut Stage) -> Result<Expect> {
    let mut physics = Physics::new(Duration::from_micros(300), 16);
    physics.flush = Duration::from_millis(stage.dice.between(5, 15));
    let mut disk = Disk::new(stage, 256 << 20, physics)?;
    let dir = disk.device.ext4(stage, "fs", &[])?;
    disk.engage()?;
    let log = Launch::new("log").with("path", dir.join("log").display()).with("size", stage.dice.between(100, 8000));
    log.with("every-ms", 1000).start(stage)?;
    Ok(Expect::healthy())
}
