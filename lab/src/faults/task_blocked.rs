//! A thread stuck in uninterruptible sleep.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::fsfreeze;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "task.blocked",
    what: "a writer is stuck in uninterruptible sleep on a frozen file system",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let disk = Disk::new(stage, 64 << 20, Physics::new(Duration::ZERO, 4))?;
    let dir = disk.device.ext4(stage, "frozen", &[])?;
    let size = stage.dice.between(100, 4000);
    let log = Launch::new("log").with("path", dir.join("log").display()).with("size", size).with("every-ms", 10);
    let log = log.flag("lazy").start(stage)?;
    fsfreeze::freeze(stage, dir)?;
    Ok(Expect::first("task.blocked", [Who::Process(log.pid), Who::Thread(log.pid)]).never(&["disk.saturated"]))
}
