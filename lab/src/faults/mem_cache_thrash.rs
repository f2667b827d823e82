//! The file working set is larger than the cache: reads come back again and again.

use crate::cgroup::Cgroup;
use crate::disk::{Disk, Physics, fill_file};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::stop;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "mem.cache_thrash",
    what: "a control group reads the same files again and again, and they do not fit into its cache",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let group = Cgroup::new(stage, "cache", &["memory"])?;
    let limit = stage.dice.between(48, 80) << 20;
    let working_set = limit * stage.dice.between(3, 5);
    let latency = Duration::from_micros(stage.dice.between(500, 2000));
    let mut disk = Disk::new(stage, 1 << 30, Physics::new(latency, 16))?;
    let dir = disk.device.ext4(stage, "fs", &[])?;
    let file = dir.join("working-set");
    fill_file(&file, working_set)?;
    group.set("memory.limit_in_bytes", limit)?;
    group.set("memory.swappiness", 0)?;
    disk.engage()?;
    let read = Launch::new("read").with("path", file.display()).with("jobs", 4).with("size", 64 << 10).flag("random");
    let read = read.in_cgroup(&group)?.start(stage)?;
    // Refaults can be told only once the cache has been filled.
    stop::pause(Duration::from_secs(3))?;
    let who = [Who::Process(read.pid), Who::cgroup(group.path())];
    let subjects = [Who::cgroup(group.path()), Who::Host];
    Ok(Expect::first("mem.cache_thrash", subjects).by(who).never(&["mem.thrashing", "disk.depth_one"]))
}
