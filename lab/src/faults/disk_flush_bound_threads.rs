//! It waits for flushes, in threads that are not the main one.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "disk.flush_bound.threads",
    what: "worker threads make records durable, on a slow disk, while a program writes more to a fast one",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let mut physics = Physics::new(Duration::from_micros(stage.dice.between(100, 400)), 16);
    physics.flush = Duration::from_millis(stage.dice.between(10, 30));
    let mut disk = Disk::new(stage, 256 << 20, physics)?;
    let dir = disk.device.ext4(stage, "fs", &[])?;
    disk.engage()?;
    let other = Disk::new(stage, 256 << 20, Physics::new(Duration::ZERO, 4))?;
    let elsewhere = other.device.ext4(stage, "other", &[])?;
    Launch::new("log")
        .with("path", elsewhere.join("log").display())
        .with("size", 1 << 20)
        .with("every-ms", 20)
        .flag("lazy")
        .start(stage)?;
    let (size, threads) = (stage.dice.between(100, 8000), stage.dice.between(1, 4));
    let log = Launch::new("log").with("path", dir.join("log").display()).with("size", size).with("threads", threads);
    let log = log.start(stage)?;
    let subjects =
        [Who::Process(log.pid), Who::device(&disk.device.name), Who::Named("mount", dir.display().to_string())];
    Ok(Expect::first("disk.flush_bound", subjects)
        .by([Who::Process(log.pid)])
        .never(&["disk.small_io", "disk.throttled"]))
}
