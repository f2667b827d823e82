//! More work than processors: everybody waits in the run queue.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial =
    Trial { name: "cpu.saturated", what: "more threads compute than there are processors", quick: true, make };

fn make(stage: &mut Stage) -> Result<Expect> {
    let cpus = std::thread::available_parallelism()?.get() as u64;
    let spinners = stage.dice.between(2, 3);
    let threads = cpus + stage.dice.between(1, 2);
    let mut pids = Vec::new();
    for _ in 0..spinners {
        pids.push(Who::Process(Launch::new("spin").with("threads", threads).start(stage)?.pid));
    }
    Ok(Expect::first("cpu.saturated", [Who::Host]).by(pids).never(&["cpu.single_thread", "cpu.throttled", "cpu.steal"]))
}
