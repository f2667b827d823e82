//! A process takes memory until nothing is left: it is named before the kernel kills.

use crate::cgroup::Cgroup;
use crate::error::{During, Error, Result};
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::fs;

/// Within the limit of a control group.
pub const IN_GROUP: Trial = Trial {
    name: "mem.leak.group",
    what: "a process in a control group grows steadily and is looked at before it reaches the group's limit",
    quick: false,
    make: in_group,
};

/// Without any limit.
pub const ON_MACHINE: Trial = Trial {
    name: "mem.leak",
    what: "a process would use up the machine's memory in a minute; it stops growing well before that",
    quick: false,
    make: on_machine,
};

/// What looks like it: every first touch of a page is kernel time, and a kill is still to come.
const NEVER: [&str; 4] = ["cpu.system_time", "mem.oom_kill", "mem.thrashing", "cpu.single_thread"];

fn in_group(stage: &mut Stage) -> Result<Expect> {
    let rate = stage.dice.between(100, 300) << 20;
    // Twice as long as it takes to settle and look.
    let limit = rate * stage.dice.between(22, 30);
    let available = mem_available()?;
    if available / 2 < limit {
        return Err(Error::Missing(format!("{} MiB of available memory", (2 * limit) >> 20)));
    }
    let group = Cgroup::new(stage, "leak", &["memory"])?;
    group.set("memory.limit_in_bytes", limit)?;
    group.set("memory.swappiness", 0)?;
    let hog = Launch::new("hog").with("rate", rate).with("most", available / 2).in_cgroup(&group)?.start(stage)?;
    Ok(expect(hog.pid))
}

fn on_machine(stage: &mut Stage) -> Result<Expect> {
    let available = mem_available()?;
    let rate = (available / stage.dice.between(50, 70)).min(1 << 30);
    let hog = Launch::new("hog").with("rate", rate).with("most", available / 2).start(stage)?;
    Ok(expect(hog.pid))
}

fn expect(hog: u32) -> Expect {
    Expect::first("mem.leak", [Who::Process(hog)]).never(&NEVER).not_ruled_out(&["memory"])
}

/// Bytes that can be allocated without swapping.
fn mem_available() -> Result<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").during("/proc/meminfo")?;
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| Error::Missing("MemAvailable in /proc/meminfo".into()))
}
