//! A high load average without a stall.

use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "high-load",
    what: "many parents wait in state D, each for its vfork child: the load average is high and nobody is delayed",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let (waiters, busy) = (stage.dice.between(20, 40), stage.dice.between(5, 20));
    for _ in 0..waiters {
        let hold = stage.dice.between(600, 1500);
        Launch::new("vfork").with("hold-ms", hold).start(stage)?;
    }
    Launch::new("naps").with("threads", busy).with("busy-us", 200).with("every-us", 20_000).start(stage)?;
    Ok(Expect::healthy())
}
