//! No space left.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "fs.full",
    what: "a file system is full, and a program keeps trying to write to it",
    quick: true,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let bytes = stage.dice.between(32, 128) << 20;
    let disk = Disk::new(stage, bytes, Physics::new(Duration::ZERO, 4))?;
    let dir = disk.device.ext4(stage, "full", &["-m", "0"])?;
    let pause = stage.dice.between(5, 50);
    Launch::new("fill").with("dir", dir.display()).with("every-ms", pause).start(stage)?;
    let mount = Who::Named("mount", dir.display().to_string());
    Ok(Expect::first("fs.full", [mount]).never(&["fs.inodes_full", "fs.readonly", "disk.saturated"]))
}
