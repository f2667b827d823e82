//! It waits for flushes, not for reads or writes.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "disk.flush_bound",
    what: "a program makes each small record durable before it writes the next, on a disk that is slow to flush",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let mut physics = Physics::new(Duration::from_micros(stage.dice.between(100, 400)), 16);
    physics.flush = Duration::from_millis(stage.dice.between(10, 30));
    let mut disk = Disk::new(stage, 256 << 20, physics)?;
    let dir = disk.device.ext4(stage, "fs", &[])?;
    disk.engage()?;
    let size = stage.dice.between(100, 8000);
    let log = Launch::new("log").with("path", dir.join("log").display()).with("size", size).start(stage)?;
    let subjects =
        [Who::Process(log.pid), Who::device(&disk.device.name), Who::Named("mount", dir.display().to_string())];
    let never = ["disk.saturated", "disk.small_io", "disk.throttled"];
    Ok(Expect::first("disk.flush_bound", subjects).by([Who::Process(log.pid)]).never(&never))
}
