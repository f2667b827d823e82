//! A build that uses all processors: saturated only to the degree that its own tasks wait.

use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "build",
    what: "as many jobs as processors come and go, computing, with nobody else waiting",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let cpus = std::thread::available_parallelism()?.get();
    let work = stage.dice.between(200, 800);
    Launch::new("build").with("jobs", cpus).with("work-ms", work).start(stage)?;
    Ok(Expect::healthy().slightly(&["cpu.saturated"]))
}
