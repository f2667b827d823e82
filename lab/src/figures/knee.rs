//! A device of so many channels.

use super::{Figure, Judged, Probe, near};
use crate::disk::{Disk, Physics};
use crate::error::{Error, Result};
use crate::stage::Stage;
use std::time::Duration;
use whyslow_model::bench::{Report, Round};

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "bench.knee",
    what: "a disk works on so many requests at once; the sweep finds that number, and the device's own counters agree",
    make,
};

fn make(stage: &mut Stage) -> Result<Probe> {
    let channels = stage.dice.between(1, 8);
    let latency = Duration::from_micros(stage.dice.between(2000, 5000));
    let mut disk = Disk::new(stage, 1 << 30, Physics::new(latency, channels))?;
    disk.engage()?;
    let node = disk.device.node.to_str().ok_or_else(|| Error::failed("a device has a strange name"))?.to_owned();
    let name = disk.device.name.clone();
    Ok(Probe {
        args: ["disk", &node, "--for", "2s"].map(str::to_owned).to_vec(),
        group: None,
        far: None,
        expected: format!("knee at {channels}"),
        judge: Box::new(move |report| judge(report, channels, &name)),
    })
}

fn judge(report: &Report, channels: u64, device: &str) -> Judged {
    let Some((ceiling, knee)) = report.ceilings.first().and_then(|ceiling| Some((ceiling, ceiling.knee?))) else {
        return Judged::of("nothing".into(), &[(false, "no knee")]);
    };
    let found = format!("knee at {}, {:.2} at once, {:.0} reads/s", knee.depth, knee.parallelism, ceiling.rate);
    let agree = report.rounds.iter().filter(|round| round.group == "random read").all(|round| agrees(round, device));
    Judged::of(
        found,
        &[
            (u64::from(knee.depth).abs_diff(channels) <= u64::from(channels > 4), "the knee is elsewhere"),
            (near(knee.parallelism, channels as f64, 0.1), "the parallelism is off by more than 10 %"),
            (ceiling.reached && !ceiling.generator, "it was not said to be the ceiling"),
            (agree, "latencies differ from the device's own by more than 5 %"),
        ],
    )
}

/// Whether the latency of a run is the device's own, by its counters: the time a read waited and was served. What a thread
/// waited for a processor on a busy machine comes on top, and cannot be told from it.
fn agrees(round: &Round, device: &str) -> bool {
    let Some((run, read)) = round.runs.first().and_then(|run| Some((run, run.read.as_ref()?))) else { return false };
    let layer = round.ledgers.first().and_then(|ledger| ledger.layers.iter().find(|layer| layer.device == device));
    let Some(wait) = layer.and_then(|layer| layer.read_wait) else { return false };
    let held_up = run.generator.waited.is_some_and(|part| part > 0.02);
    if held_up { read.latency.mean > wait * 0.95 } else { near(read.latency.mean, wait, 0.05) }
}
