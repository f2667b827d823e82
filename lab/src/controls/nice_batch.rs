//! A batch job that delays nobody.

use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "nice-batch",
    what: "a batch job of the lowest priority computes on fewer processors than there are",
    quick: true,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let spare = std::thread::available_parallelism()?.get() as u64 - 1;
    let threads = stage.dice.between(1, spare.max(1));
    Launch::new("spin").with("threads", threads).with("nice", 19).start(stage)?;
    Ok(Expect::healthy())
}
