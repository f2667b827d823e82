//! A file system that is well used but not filling.

use crate::disk::{Disk, Physics, fill_file};
use crate::error::Result;
use crate::expect::Expect;
use crate::stage::Stage;
use crate::trial::Trial;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial { name: "fs-85", what: "a file system is 85 % full and stays so", quick: false, make };

fn make(stage: &mut Stage) -> Result<Expect> {
    let bytes = stage.dice.between(128, 512) << 20;
    let disk = Disk::new(stage, bytes, Physics::new(Duration::ZERO, 4))?;
    let dir = disk.device.ext4(stage, "used", &[])?;
    let space = nix::sys::statvfs::statvfs(&dir)?;
    let used = space.blocks_available() * space.fragment_size() * stage.dice.between(80, 86) / 100;
    fill_file(&dir.join("data"), used)?;
    Ok(Expect::healthy())
}
