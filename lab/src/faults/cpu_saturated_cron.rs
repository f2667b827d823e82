//! More work than CPUs, beside a small periodic job that is not to blame.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "cpu.saturated.cron",
    what: "several processes compute without end, and a shell-like loop starts one short job after the other beside them",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let cpus = std::thread::available_parallelism()?.get() as u64;
    // Three for each CPU leave the loop a quarter of one CPU.
    for _ in 0..3 * cpus {
        Launch::new("spin").start(stage)?;
    }
    let work = stage.dice.between(60, 200);
    Launch::new("build").with("jobs", 1).with("work-ms", work).start(stage)?;
    let never = ["cpu.short_lived", "cpu.single_thread", "cpu.throttled", "cpu.steal"];
    Ok(Expect::first("cpu.saturated", [Who::Host]).by([Who::Command("lab-spin")]).never(&never))
}
