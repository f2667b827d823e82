//! A limit holds requests above an idle device.

use crate::cgroup::Cgroup;
use crate::disk::{Disk, Physics};
use crate::error::Result;
use crate::expect::{Expect, Who};
use crate::stage::Stage;
use crate::trial::Trial;
use crate::worker::Launch;
use std::time::Duration;

/// The trial.
pub const TRIAL: Trial = Trial {
    name: "disk.throttled",
    what: "a control group reads against a limit of requests or bytes on a disk that could do more",
    quick: false,
    make,
};

fn make(stage: &mut Stage) -> Result<Expect> {
    let mut disk = Disk::new(stage, 1 << 30, Physics::new(Duration::from_micros(300), 32))?;
    disk.engage()?;
    let group = Cgroup::new(stage, "iolimit", &["blkio"])?;
    let number = std::fs::read_to_string(format!("/sys/block/{}/dev", disk.device.name))?;
    let (file, limit) = match stage.dice.pick(&[true, false]) {
        true => ("blkio.throttle.read_bps_device", stage.dice.between(1, 4) << 20),
        false => ("blkio.throttle.read_iops_device", stage.dice.between(30, 100)),
    };
    group.set(file, format!("{} {limit}", number.trim()))?;
    let jobs = stage.dice.between(1, 4);
    let read = Launch::new("read").with("path", disk.device.node.display()).with("jobs", jobs).with("size", 64 << 10);
    let read = read.flag("random").flag("direct").in_cgroup(&group)?.start(stage)?;
    let who = [Who::Process(read.pid), Who::cgroup(group.path())];
    let never = ["disk.saturated", "disk.depth_one", "disk.slow_device"];
    Ok(Expect::first("disk.throttled", [Who::cgroup(group.path())]).by(who).never(&never))
}
