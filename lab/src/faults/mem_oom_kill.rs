//! The kernel kills a process for memory.

use crate::cgroup::Cgroup;
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "mem.oom_kill",
    what: "a hog in a small control group without swap is killed every few seconds",
    quick: true,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let group = Cgroup::new(stage, "oom", &["memory"])?;
    let limit = stage.dice.between(24, 64) << 20;
    group.set("memory.limit_in_bytes", limit)?;
    group.set("memory.swappiness", 0)?;
    let pause = stage.dice.between(500, 1500);
    Launch::new("oom").with("rate", limit).with("pause-ms", pause).in_cgroup(&group)?.start(stage)?;
    let subjects = [Who::Command("lab-hog"), Who::cgroup(group.path())];
    Ok(Expect::first("mem.oom_kill", subjects).by([Who::Command("lab-hog")]).never(&["mem.thrashing", "mem.leak"]))
}
