//! The working set is larger than the memory: pages go out and come back.

use crate::cgroup::Cgroup;
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use crate::zram;

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
    // Touched as fast as it can, every page looks used, reclaim finds none to take, and the kernel kills instead.
    let rate = stage.dice.between(40_000, 80_000);
    // Not on the disk of known physics: its data lies in memory that can be swapped out itself, to itself.
    zram::swap(stage, 8 * limit)?;
    group.set("memory.limit_in_bytes", limit)?;
    let touch =
        Launch::new("touch").with("bytes", working_set).with("rate", rate).with("seed", stage.dice.between(1, 1 << 30));
    let touch = touch.in_cgroup(&group)?.start(stage)?;
    let who = [Who::Process(touch.pid), Who::cgroup(group.path())];
    Ok(Expect::first("mem.thrashing", [Who::cgroup(group.path())]).by(who).never(&[
        "disk.saturated",
        "disk.small_io",
        "mem.cache_thrash",
    ]))
}
