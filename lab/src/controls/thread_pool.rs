//! Threads without work.

use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "thread-pool",
    what: "a thousand threads and more sleep in futex(2) until the slow source of their work has something for one",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let (threads, rate) = (stage.dice.between(1000, 1800), stage.dice.between(20, 200));
    let pool = Launch::new("pool").with("threads", threads).with("rate", rate);
    pool.with("work-us", stage.dice.between(500, 2000)).start(stage)?;
    Ok(Expect::healthy())
}
