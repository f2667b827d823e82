//! A device of so many channels.

use super::{Figure, Judged, Probe, near, too_busy};
use crate::disk::{Disk, Physics};
use crate::error::{Error, Result};
use crate::stage::Stage;
use std::time::Duration;
use whyslow_model::bench::{Report, Round, Run};

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
    let known = Known { channels, latency: latency.as_secs_f64(), device: disk.device.name.clone() };
    Ok(Probe {
        args: ["disk", &node, "--for", "2s"].map(str::to_owned).to_vec(),
        group: None,
        far: None,
        expected: format!("knee at {channels}"),
        judge: Box::new(move |report| judge(report, &known)),
    })
}

/// What the disk was made to be.
struct Known {
    channels: u64,
    /// Time a request occupies a channel, seconds.
    latency: f64,
    device: String,
}

impl Known {
    /// How much longer a request alone took than its channel, by the device's own counters. On a busy machine it waits on its
    /// way, in the loop device's worker and in the server: time that occupies no channel, so that it takes so many times more
    /// in flight to occupy them all (Little's law).
    fn stretch(&self, report: &Report) -> Option<f64> {
        let alone = |round: &&Round| {
            let of_one = |run: &Run| run.asked.depth * run.asked.jobs == 1 && run.asked.largest_block() == 4096;
            round.group == GROUP && round.runs.first().is_some_and(of_one)
        };
        let wait = wait(report.rounds.iter().find(alone)?, &self.device)?;
        Some((wait / self.latency).max(1.0))
    }
}

const GROUP: &str = "random read";
/// Where a request alone takes longer than this many times its channel, what holds it up is not the same from one moment to
/// the next, and there is no one knee to find.
const TOO_LONG: f64 = 1.25;
/// Why there is nothing to hold the figures against; none where there is.
fn unknowable(report: &Report, stretch: f64) -> Option<String> {
    let stretched = || format!("a quiet machine: a request alone took {stretch:.2} times its channel");
    too_busy(report).or_else(|| (stretch > TOO_LONG).then(stretched))
}

fn judge(report: &Report, known: &Known) -> Judged {
    let measured = || {
        let ceiling = report.ceilings.first()?;
        Some((ceiling, ceiling.knee?, known.stretch(report)?))
    };
    let Some((ceiling, knee, stretch)) = measured() else {
        return Judged::of("nothing".into(), &[(false, "no knee")]);
    };
    if let Some(missing) = unknowable(report, stretch) {
        return Judged::not_without(missing);
    }
    let (fewest, most) = (known.channels, (known.channels as f64 * stretch).ceil() as u64);
    let found = format!(
        "knee at {}, {:.2} at once, {:.0} reads/s; alone {stretch:.2} times its channel",
        knee.depth, knee.parallelism, ceiling.rate
    );
    let slack = u64::from(known.channels > 4);
    let agree = report.rounds.iter().filter(|round| round.group == GROUP).all(|round| agrees(round, &known.device));
    Judged::of(
        found,
        &[
            ((fewest - slack..=most + slack).contains(&knee.depth.into()), "the knee is elsewhere"),
            (near(knee.parallelism, known.channels as f64 * stretch, 0.1), "the parallelism is off by more than 10 %"),
            (ceiling.reached && !ceiling.generator, "it was not said to be the ceiling"),
            (agree, "latencies differ from the device's own by more than 5 %"),
        ],
    )
}

/// Whether the latency of a run is the device's own, by its counters: the time a read waited and was served. What a thread
/// waited for a processor on a busy machine comes on top, and cannot be told from it.
fn agrees(round: &Round, device: &str) -> bool {
    let Some((run, read)) = round.runs.first().and_then(|run| Some((run, run.read.as_ref()?))) else { return false };
    let Some(wait) = wait(round, device) else { return false };
    let held_up = run.generator.waited.is_some_and(|part| part > 0.02);
    if held_up { read.latency.mean > wait * 0.95 } else { near(read.latency.mean, wait, 0.05) }
}

/// How long the device itself had a read, from its coming to its going, seconds.
fn wait(round: &Round, device: &str) -> Option<f64> {
    round.ledgers.first()?.layers.iter().find(|layer| layer.device == device)?.read_wait
}
