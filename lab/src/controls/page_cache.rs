//! The page cache fills the memory, as it should.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "page-cache",
    what: "the page cache fills with a file read once, slowly enough for its disk",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let mut disk = Disk::new(stage, 2 << 30, Physics::new(Duration::from_micros(200), 32))?;
    disk.engage()?;
    let rate = stage.dice.between(20, 60) << 20;
    let read = Launch::new("read").with("path", disk.device.node.display()).with("size", 128 << 10);
    read.with("rate", rate).start(stage)?;
    Ok(Expect::healthy())
}
