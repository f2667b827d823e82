//! No inodes left.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "fs.inodes_full",
    what: "a file system has space but no inodes left, and a program keeps trying to make files",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let inodes = stage.dice.between(500, 2000).to_string();
    let disk = Disk::new(stage, 128 << 20, Physics::new(Duration::ZERO, 4))?;
    let dir = disk.device.ext4(stage, "full", &["-N", &inodes])?;
    let pause = stage.dice.between(5, 50);
    Launch::new("fill").with("dir", dir.display()).with("every-ms", pause).flag("inodes").start(stage)?;
    let mount = Who::Named("mount", dir.display().to_string());
    Ok(Expect::first("fs.inodes_full", [mount]).never(&["fs.full", "fs.readonly"]))
}
