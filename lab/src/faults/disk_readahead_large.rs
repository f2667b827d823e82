//! Read-ahead too large for random reads.

use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "disk.readahead-large",
    what: "small records are read at random places, by read calls or through a mapping, with a lot of read-ahead",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let mut physics = Physics::new(Duration::from_micros(stage.dice.between(200, 800)), 16);
    physics.rate = stage.dice.between(80, 150) << 20;
    // So large that most places are looked at for the first time, so small that some are not: a mapping of which
    // nothing is ever found in the cache is soon read without read-ahead (mm/filemap.c: MMAP_LOTSAMISS).
    let mut disk = Disk::new(stage, 3 << 30, physics)?;
    let read_ahead = stage.dice.between(2, 8) << 20;
    disk.device.read_ahead(stage, read_ahead)?;
    disk.engage()?;
    let load = match stage.dice.pick(&[true, false]) {
        true => Launch::new("map"),
        false => Launch::new("read").flag("random").with("size", 4 << 10).with("run", stage.dice.between(4, 8)),
    };
    let read = load.with("path", disk.device.node.display()).start(stage)?;
    let never = ["disk.saturated", "disk.small_io", "disk.depth_one", "mem.cache_thrash"];
    let who = [Who::Process(read.pid)];
    Ok(Expect::first("disk.readahead", who.clone()).by(who).never(&never))
}
