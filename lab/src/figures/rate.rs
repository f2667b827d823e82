//! A device that is held to a rate.

use super::{Figure, Judged, Probe, near};
use crate::cgroup::Cgroup;
use crate::disk::{Disk, Physics};
use crate::error::{Error, Result};
use crate::stage::Stage;
use std::time::Duration;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "bench.rate",
    what: "a control group is held to so many reads a second; the ceiling is measured within 2 %",
    make,
};

fn make(stage: &mut Stage) -> Result<Probe> {
    let mut disk = Disk::new(stage, 1 << 30, Physics::new(Duration::from_micros(300), 32))?;
    disk.engage()?;
    let group = Cgroup::new(stage, "benchrate", &["blkio"])?;
    let number = std::fs::read_to_string(format!("/sys/block/{}/dev", disk.device.name))?;
    // The kernel lets whole requests through by slices of a tenth of a second (block/blk-throttle.c): of 388 a second, 380.
    let rate = (10 * stage.dice.between(20, 150)) as f64;
    group.set("blkio.throttle.read_iops_device", format!("{} {rate}", number.trim()))?;
    let node = disk.device.node.to_str().ok_or_else(|| Error::failed("a device has a strange name"))?.to_owned();
    let judge = move |report: &whyslow_model::bench::Report| {
        let Some(ceiling) = report.ceilings.first() else {
            return Judged::of("nothing".into(), &[(false, "no ceiling")]);
        };
        let found = format!("{:.1} reads/s", ceiling.rate);
        Judged::of(
            found,
            &[
                (near(ceiling.rate, rate, 0.02), "the rate is off by more than 2 %"),
                (ceiling.reached && !ceiling.generator, "it was not said to be the ceiling"),
            ],
        )
    };
    Ok(Probe {
        args: ["disk", &node, "--for", "3s"].map(str::to_owned).to_vec(),
        group: Some(group),
        far: None,
        expected: format!("{rate} reads/s"),
        judge: Box::new(judge),
    })
}
