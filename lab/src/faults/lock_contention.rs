//! Threads that wait for each other while processors idle.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "lock.contention",
    what: "many threads want one lock, whose holder computes or sleeps",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let (threads, hold) = (stage.dice.between(4, 16), stage.dice.between(300, 5000));
    let mut fight = Launch::new("fight").with("threads", threads).with("hold-us", hold).with("outside-us", 20);
    if stage.dice.pick(&[true, false]) {
        fight = fight.flag("asleep");
    }
    let fight = fight.start(stage)?;
    let never = ["cpu.saturated", "cpu.context_switches", "task.blocked"];
    Ok(Expect::first("lock.contention", [Who::Process(fight.pid)]).by([Who::Process(fight.pid)]).never(&never))
}
