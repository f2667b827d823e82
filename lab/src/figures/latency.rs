//! A device whose requests take so long.

use super::{Figure, Judged, Probe, near, too_busy};
use crate::disk::{Disk, Physics};
use crate::error::{During, Result};
use crate::stage::Stage;
use std::fs;
use std::time::Duration;
use whyslow_model::bench::Report;

/// The figure.
pub const FIGURE: Figure = Figure {
    name: "bench.latency",
    what: "each request to a disk takes so long; latency and rate of one at a time are measured within 2 %",
    make,
};

fn make(stage: &mut Stage) -> Result<Probe> {
    // So long that the way through the loop device and the disk's server, some tenths of a millisecond, is no part of it.
    let latency = Duration::from_micros(stage.dice.between(30_000, 60_000));
    let mut disk = Disk::new(stage, 1 << 30, Physics::new(latency, 1))?;
    disk.engage()?;
    let job = stage.path("latency.fio");
    let text = format!(
        "[one]\nfilename={}\nrw=randread\nbs=4k\ndirect=1\nioengine=io_uring\niodepth=1\ntime_based\nruntime=8\n",
        disk.device.node.display()
    );
    fs::write(&job, text).during(job.display())?;
    let expected = latency.as_secs_f64();
    Ok(Probe {
        args: ["disk", "--job", &job.to_string_lossy()].map(str::to_owned).to_vec(),
        group: None,
        far: None,
        expected: format!("{:.2} ms", expected * 1e3),
        judge: Box::new(move |report| judge(report, expected)),
    })
}

fn judge(report: &Report, expected: f64) -> Judged {
    if let Some(missing) = too_busy(report) {
        return Judged::not_without(missing);
    }
    let read = || report.rounds.first()?.runs.first()?.read.as_ref();
    let Some(read) = read() else { return Judged::of("nothing".into(), &[(false, "no reads")]) };
    let (mean, rate) = (read.latency.mean, read.rate);
    Judged::of(
        format!("{:.2} ms, {rate:.2} reads/s", mean * 1e3),
        &[
            (near(mean, expected, 0.02), "the latency is off by more than 2 %"),
            (near(rate, 1.0 / expected, 0.02), "the rate is off by more than 2 %"),
        ],
    )
}
