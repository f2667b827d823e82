//! Processes too short-lived for any sample eat the processor.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "cpu.short_lived",
    what: "a parent starts tiny programs one after the other, none of which lives as long as a sample",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let together = stage.dice.between(1, 3);
    let forks = Launch::new("forks").with("together", together).start(stage)?;
    Ok(Expect::first("cpu.short_lived", [Who::Process(forks.pid)]).never(&["cpu.system_time", "cpu.single_thread"]))
}
