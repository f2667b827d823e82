//! The control group's limit is short of memory, not the machine.

use crate::cgroup::Cgroup;
use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The control group's limit is short of memory, not the machine.
pub const TRIAL: Trial = Trial {
    name: "mem.cgroup_limit",
    what: "a control group without swap, full of anonymous memory, reads a stream of files through what is left",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let mut disk = Disk::new(stage, 3 << 30, Physics::new(Duration::from_micros(200), 32))?;
    let group = Cgroup::new(stage, "limit", &["memory"])?;
    let limit = stage.dice.between(64, 128) << 20;
    group.set("memory.limit_in_bytes", limit)?;
    group.set("memory.swappiness", 0)?;
    let held = limit * stage.dice.between(85, 90) / 100;
    let touch = Launch::new("touch").with("bytes", held).with("rate", 1000).in_cgroup(&group)?.start(stage)?;
    disk.engage()?;
    let read = Launch::new("read").with("path", disk.device.node.display()).with("jobs", 4).with("size", 256 << 10);
    let read = read.in_cgroup(&group)?.start(stage)?;
    let who = [Who::Process(read.pid), Who::Process(touch.pid), Who::cgroup(group.path())];
    Ok(Expect::first("mem.cgroup_limit", [Who::cgroup(group.path())]).by(who).never(&["mem.thrashing", "mem.oom_kill"]))
}
