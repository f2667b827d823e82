//! Many open files, and as many to spare.

use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial =
    Trial { name: "half-open-files", what: "a process has half the files open that it may", quick: false, make };

fn make(stage: &mut Stage) -> Result<Expect> {
    let limit = stage.dice.between(256, 4096);
    Launch::new("files").with("limit", limit).with("open", limit / 2).start(stage)?;
    Ok(Expect::healthy())
}
