//! Devices that share a disk below, and devices that do not.

use super::{Figure, Judged, Probe};
use crate::disk::{Disk, Loop, Physics, fill_file};
use crate::error::Result;
use crate::stage::Stage;
use std::time::Duration;

/// Two on one disk.
pub const SHARED: Figure = Figure {
    name: "bench.shared",
    what: "two loop devices lie on one disk; they are found to share it",
    make: |stage| make(stage, true),
};

/// Each on a disk of its own.
pub const APART: Figure = Figure {
    name: "bench.apart",
    what: "two disks have nothing in common; none is found to be in the other's way",
    make: |stage| make(stage, false),
};

const BYTES: u64 = 64 << 20;

fn make(stage: &mut Stage, shared: bool) -> Result<Probe> {
    let physics = Physics::new(Duration::from_micros(stage.dice.between(2000, 4000)), stage.dice.between(1, 4));
    let devices = if shared { on_one_disk(stage, physics)? } else { on_two_disks(stage, physics)? };
    let mut args = vec!["contend".to_owned()];
    args.extend(devices.iter().map(|device| device.node.display().to_string()));
    args.extend(["--for", "2s"].map(str::to_owned));
    let judge = move |report: &whyslow_model::bench::Report| {
        let Some(pair) = report.pairs.first() else { return Judged::of("nothing".into(), &[(false, "no pair")]) };
        let found = format!("together they do {:.2}, known: {}", pair.sum, pair.known.join(" "));
        Judged::of(
            found,
            &[
                (pair.contend == Some(shared), "the verdict is wrong"),
                (pair.known.is_empty() != shared, "what they are known to share is wrong"),
            ],
        )
    };
    let expected = if shared { "they share" } else { "each has its own" };
    Ok(Probe { args, group: None, far: None, expected: expected.into(), judge: Box::new(judge) })
}

fn on_one_disk(stage: &mut Stage, physics: Physics) -> Result<Vec<Loop>> {
    let mut disk = Disk::new(stage, 4 * BYTES, physics)?;
    let dir = disk.device.ext4(stage, "mnt", &[])?;
    let mut devices = Vec::new();
    for name in ["a", "b"] {
        let file = dir.join(name);
        fill_file(&file, BYTES)?;
        devices.push(Loop::over(stage, &file)?);
    }
    disk.engage()?;
    Ok(devices)
}

fn on_two_disks(stage: &mut Stage, physics: Physics) -> Result<Vec<Loop>> {
    (0..2)
        .map(|_| {
            let mut disk = Disk::new(stage, BYTES, physics)?;
            disk.engage()?;
            Ok(disk.device)
        })
        .collect()
}
