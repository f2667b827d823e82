//! No file descriptors left.

use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "limit.open_files",
    what: "a process has all the files open that it may, and keeps trying to open more",
    quick: true,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let limit = stage.dice.between(64, 1024);
    let files = Launch::new("files").with("limit", limit).with("open", limit + 1).start(stage)?;
    Ok(Expect::first("limit.open_files", [Who::Process(files.pid)]).never(&["limit.file_table", "limit.processes"]))
}
