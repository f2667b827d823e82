//! A quota stops a control group while processors idle.

use crate::cgroup::Cgroup;
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "cpu.throttled",
    what: "a control group computes against a quota of less than one processor",
    quick: true,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let group = Cgroup::new(stage, "quota", &["cpu", "cpuacct"])?;
    let period = stage.dice.pick(&[50_000, 100_000]);
    group.set("cpu.cfs_period_us", period)?;
    group.set("cpu.cfs_quota_us", period * stage.dice.between(20, 60) / 100)?;
    let threads = stage.dice.between(1, 3);
    let spin = Launch::new("spin").with("threads", threads).in_cgroup(&group)?.start(stage)?;
    let who = [Who::Process(spin.pid), Who::cgroup(group.path())];
    Ok(Expect::first("cpu.throttled", [Who::cgroup(group.path())])
        .by(who)
        .never(&["cpu.saturated", "cpu.single_thread"]))
}
