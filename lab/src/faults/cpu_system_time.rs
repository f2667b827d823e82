//! Kernel time dominates, and it is not interrupts.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "cpu.system_time",
    what: "a process for each processor does nothing but system calls",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let cpus = std::thread::available_parallelism()?.get();
    let call = stage.dice.pick(&["zero", "random", "map"]);
    let bytes = stage.dice.between(4, 64) << 16;
    let mut pids = Vec::new();
    for _ in 0..cpus {
        let load = Launch::new("syscalls").with("call", call).with("bytes", bytes);
        pids.push(Who::Process(load.start(stage)?.pid));
    }
    Ok(Expect::first("cpu.system_time", pids).never(&["cpu.interrupts", "cpu.short_lived"]))
}
