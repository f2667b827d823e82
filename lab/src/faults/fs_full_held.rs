//! No space left, and a process that keeps what takes it open.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "fs.full.held",
    what: "a file system is full of one open file, deleted or not, while another program writes more to another one",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let bytes = stage.dice.between(32, 128) << 20;
    let disk = Disk::new(stage, bytes, Physics::new(Duration::ZERO, 4))?;
    let dir = disk.device.ext4(stage, "full", &["-m", "0"])?;
    let other = Disk::new(stage, 256 << 20, Physics::new(Duration::ZERO, 4))?;
    let elsewhere = other.device.ext4(stage, "other", &[])?;
    Launch::new("log")
        .with("path", elsewhere.join("log").display())
        .with("size", 1 << 20)
        .with("every-ms", 20)
        .flag("lazy")
        .start(stage)?;
    let pause = stage.dice.between(5, 50);
    let mut fill = Launch::new("fill").with("dir", dir.display()).with("every-ms", pause).flag("hold");
    if stage.dice.between(0, 1) == 1 {
        fill = fill.flag("deleted");
    }
    let fill = fill.start(stage)?;
    let mount = Who::Named("mount", dir.display().to_string());
    let never = ["fs.inodes_full", "fs.readonly", "disk.saturated"];
    Ok(Expect::first("fs.full", [mount]).by([Who::Process(fill.pid)]).never(&never))
}
