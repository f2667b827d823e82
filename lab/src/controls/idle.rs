//! Nothing is done.

use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;

/// The trial.
pub const TRIAL: Trial = Trial { name: "idle", what: "nothing is done", quick: true, make };

fn make(stage: &mut Stage) -> Result<Expect> {
    // Nothing to put on the stage.
    let _ = stage;
    Ok(Expect::healthy())
}
