//! Threads that wait for the next frame.

use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "game-loop",
    what: "some threads do their part of each frame, wait for each other in futex(2), and for the next frame",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let (threads, rate) = (stage.dice.between(2, 6), stage.dice.pick(&[30, 60, 120]));
    // A fifth of one processor in all: the threads of one frame want to run at the same time.
    let work = 200_000 / rate / threads;
    Launch::new("frames").with("threads", threads).with("rate", rate).with("work-us", work).start(stage)?;
    Ok(Expect::healthy())
}
