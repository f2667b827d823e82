//! Several disks that are one disk contend.

use crate::disk::{Disk, Loop, Physics, fill_file};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "disk.shared",
    what: "two or three virtual disks, each with a reader of its own, are files on one and the same disk",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let channels = stage.dice.between(2, 4);
    let latency = Duration::from_millis(stage.dice.between(3, 8));
    let mut disk = Disk::new(stage, 1 << 30, Physics::new(latency, channels))?;
    let dir = disk.device.ext4(stage, "fs", &[])?;
    let mut guests = Vec::new();
    for guest in 0..stage.dice.between(2, 3) {
        let file = dir.join(format!("guest{guest}"));
        fill_file(&file, 128 << 20)?;
        guests.push(Loop::over(stage, &file)?);
    }
    disk.engage()?;
    let jobs = channels * stage.dice.between(2, 3);
    let mut users = Vec::new();
    for guest in guests {
        let read = Launch::new("read").with("path", guest.node.display()).with("jobs", jobs).with("size", 64 << 10);
        users.push(Who::device(&guest.name));
        users.push(Who::Process(read.flag("random").flag("direct").start(stage)?.pid));
    }
    Ok(Expect::first("disk.shared", [Who::device(&disk.device.name)]).by(users).never(&["disk.depth_one"]))
}
