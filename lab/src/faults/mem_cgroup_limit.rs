//! The control group's limit is short of memory, not the machine.

use crate::cgroup::Cgroup;
use crate::disk::{Disk, Physics, fill_file};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "mem.cgroup_limit",
    what: "a control group full of its own memory reads a file again and again that a slightly higher limit would hold",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let group = Cgroup::new(stage, "limit", &["memory"])?;
    let limit = stage.dice.between(64, 128) << 20;
    let latency = Duration::from_micros(stage.dice.between(800, 1500));
    let mut disk = Disk::new(stage, 512 << 20, Physics::new(latency, 32))?;
    let file = disk.device.ext4(stage, "fs", &[])?.join("program");
    // A third more than is left: half as high a limit again would hold all of it.
    let held = limit * stage.dice.between(70, 80) / 100;
    fill_file(&file, (limit - held) * 4 / 3)?;
    group.set("memory.limit_in_bytes", limit)?;
    group.set("memory.swappiness", 0)?;
    disk.engage()?;
    let touch = Launch::new("touch").with("bytes", held).with("rate", 50_000).in_cgroup(&group)?.start(stage)?;
    let read = Launch::new("read").with("path", file.display()).with("jobs", 4).with("size", 64 << 10).flag("random");
    let read = read.in_cgroup(&group)?.start(stage)?;
    let who = [Who::Process(read.pid), Who::Process(touch.pid), Who::cgroup(group.path())];
    Ok(Expect::first("mem.cgroup_limit", [Who::cgroup(group.path())]).by(who).never(&["mem.thrashing", "mem.oom_kill"]))
}
