//! One busy thread among sleeping ones: another processor would not help.

use crate::error::Error;
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "cpu.single_thread",
    what: "one thread of a process fills a processor while its siblings and another processor idle",
    quick: true,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let idle = stage.dice.between(3, 20);
    let spin = Launch::new("spin").with("idle", idle).start(stage)?;
    let tid = spin.note.parse().map_err(|_| Error::failed("the load did not say which thread computes"))?;
    Ok(Expect::first("cpu.single_thread", [Who::Thread(tid)]).never(&["cpu.saturated", "cpu.system_time"]))
}
