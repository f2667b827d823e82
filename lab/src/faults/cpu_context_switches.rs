//! Threads that do nothing but wake each other.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "cpu.context_switches",
    what: "the threads of a process hand one byte round through pipes and do nothing else",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let threads = stage.dice.between(2, 8);
    let ring = Launch::new("ring").with("threads", threads).start(stage)?;
    let never = ["cpu.saturated", "cpu.system_time", "lock.contention"];
    Ok(Expect::first("cpu.context_switches", [Who::Process(ring.pid)]).by([Who::Process(ring.pid)]).never(&never))
}
