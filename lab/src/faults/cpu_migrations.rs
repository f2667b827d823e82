//! A thread that is never long enough on one processor to make use of its cache.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "cpu.migrations",
    what: "a thread that computes binds itself to one processor after the other, thousands of times a second",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let (every, bytes) = (stage.dice.between(100, 400), stage.dice.between(128, 768) << 10);
    let hop = Launch::new("hop").with("every-us", every).with("bytes", bytes).start(stage)?;
    let never = ["cpu.saturated", "cpu.context_switches", "lock.contention"];
    Ok(Expect::first("cpu.migrations", [Who::Process(hop.pid)]).by([Who::Process(hop.pid)]).never(&never))
}
