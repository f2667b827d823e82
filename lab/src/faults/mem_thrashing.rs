//! The working set is larger than the memory: pages go out and come back.

use crate::cgroup::Cgroup;
use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::swap;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "mem.thrashing",
    what: "a control group touches more memory than its limit at random, and swaps",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let group = Cgroup::new(stage, "thrash", &["memory"])?;
    let limit = stage.dice.between(48, 96) << 20;
    let working_set = limit * stage.dice.between(140, 180) / 100;
    let latency = Duration::from_micros(stage.dice.between(100, 400));
    let mut disk = Disk::new(stage, 1 << 30, Physics::new(latency, 16))?;
    swap::on(stage, &disk.device.node.to_string_lossy())?;
    disk.engage()?;
    group.set("memory.limit_in_bytes", limit)?;
    let touch = Launch::new("touch").with("bytes", working_set).with("seed", stage.dice.between(1, 1 << 30));
    let touch = touch.in_cgroup(&group)?.start(stage)?;
    let who = [Who::Process(touch.pid), Who::cgroup(group.path())];
    Ok(Expect::first("mem.thrashing", [Who::cgroup(group.path())]).by(who).never(&[
        "disk.saturated",
        "disk.small_io",
        "mem.cache_thrash",
    ]))
}
