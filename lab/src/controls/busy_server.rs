//! Many context switches, each for a piece of work.

use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "busy-server",
    what: "a server answers thousands of requests a second, with a little work and a few switches each",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let (clients, work) = (stage.dice.between(2, 4), stage.dice.between(30, 60));
    let rate = stage.dice.between(3000, 5000) / clients;
    Launch::new("serve").with("clients", clients).with("rate", rate).with("work-us", work).start(stage)?;
    Ok(Expect::healthy())
}
