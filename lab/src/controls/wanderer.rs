//! Threads that change processor now and then.

use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "wanderer",
    what: "a batch job of the lowest priority binds itself to another processor some times a second",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let every = stage.dice.between(50, 200) * 1000;
    Launch::new("hop").with("every-us", every).with("bytes", 512 << 10).with("nice", 19).start(stage)?;
    Ok(Expect::healthy())
}
