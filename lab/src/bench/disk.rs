//! Benchmark trials on disks of known speed.

use super::{BenchTrial, Benchmark, Checked, near};
use crate::cgroup::{Cgroup, Controller, ReadLimit};
use crate::disk::{DiskSpec, LoopDevice, SimulatedDisk, write_file};
use crate::error::{Context, Result};
use crate::testbed::Testbed;
use std::fs;
use std::time::Duration;
use whyslow_documents::bench::{BenchReport, DiskRun, Round};

pub const RATE: BenchTrial = BenchTrial {
    name: "bench.rate",
    what: "a cgroup limits the reads per second; the ceiling is measured within 2 %",
    setup: |bed| {
        let mut disk = SimulatedDisk::new(bed, 1 << 30, DiskSpec::new(Duration::from_micros(300), 32))?;
        disk.enable_delays()?;
        let group = Cgroup::new(bed, "benchrate", &[Controller::Io])?;
        // The kernel admits whole requests per slice of a tenth of a second: 380 of 388 per second
        // (block/blk-throttle.c).
        let limit = 10 * bed.range(20..=150);
        group.set_read_limit(&disk.device.name, ReadLimit::Requests(limit))?;
        let check = move |report: &BenchReport| {
            let Some(ceiling) = report.ceilings.first() else { return Checked::no("ceiling") };
            Checked::new(
                format!("{:.1} reads/s", ceiling.rate),
                &[
                    (near(ceiling.rate, limit as f64, 0.02), "the rate is off by more than 2 %"),
                    (ceiling.reached && !ceiling.generator, "it was not reported as the ceiling"),
                ],
            )
        };
        let args = ["disk", &node(&disk.device), "--only", "depth", "--for", "3s"];
        Ok(Benchmark { group: Some(group), ..Benchmark::new(&args, format!("{limit} reads/s"), check) })
    },
};

pub const LATENCY: BenchTrial = BenchTrial {
    name: "bench.latency",
    what: "each request to a disk takes the same time; latency and rate at depth 1 are measured within 2 %",
    setup: |bed| {
        // Long enough that the overhead of loop device and FUSE, some tenths of a millisecond, is negligible.
        let latency = Duration::from_micros(bed.range(30_000..=60_000));
        let mut disk = SimulatedDisk::new(bed, 1 << 30, DiskSpec::new(latency, 1))?;
        disk.enable_delays()?;
        let job = bed.path("latency.fio");
        let options = "rw=randread\nbs=4k\ndirect=1\nioengine=io_uring\niodepth=1\ntime_based\nruntime=8\n";
        fs::write(&job, format!("[one]\nfilename={}\n{options}", node(&disk.device))).context(job.display())?;
        let expected = latency.as_secs_f64();
        let check = move |report: &BenchReport| {
            if let Some(busy) = busy_machine(report) {
                return Checked::missing(busy);
            }
            let read = || report.rounds.first()?.runs.first()?.read.as_ref();
            let Some(read) = read() else { return Checked::no("reads") };
            Checked::new(
                format!("{:.2} ms, {:.2} reads/s", read.latency.mean * 1e3, read.rate),
                &[
                    (near(read.latency.mean, expected, 0.02), "the latency is off by more than 2 %"),
                    (near(read.rate, 1.0 / expected, 0.02), "the rate is off by more than 2 %"),
                ],
            )
        };
        Ok(Benchmark::new(&["disk", "--job", &job.to_string_lossy()], format!("{:.2} ms", expected * 1e3), check))
    },
};

pub const KNEE: BenchTrial = BenchTrial {
    name: "bench.knee",
    what: "a disk has a few channels; the sweep finds how many, and the device's own counters agree with the latencies",
    setup: |bed| {
        let channels = bed.range(1..=8);
        let latency = Duration::from_micros(bed.range(2000..=5000));
        let mut disk = SimulatedDisk::new(bed, 1 << 30, DiskSpec::new(latency, channels))?;
        disk.enable_delays()?;
        let known = Known { channels, latency: latency.as_secs_f64(), device: disk.device.name.clone() };
        let args = ["disk", &node(&disk.device), "--only", "depth", "--for", "2s"];
        Ok(Benchmark::new(&args, format!("knee at {channels}"), move |report| check_knee(report, &known)))
    },
};

/// Real properties of the disk.
struct Known {
    channels: u64,
    /// Time for which a request occupies a channel, in seconds.
    latency: f64,
    device: String,
}

impl Known {
    /// Returns the factor by which a single request took longer than its channel, according to the device's own
    /// counters. On a busy machine it also waits in the loop device's worker and in the FUSE server. It occupies no
    /// channel there, so occupying all channels takes more requests in flight, by the same factor (Little's law).
    fn delay_factor(&self, report: &BenchReport) -> Option<f64> {
        let at_depth_one = |round: &&Round| {
            let single = |run: &DiskRun| run.asked.depth * run.asked.jobs == 1 && run.asked.largest_block() == 4096;
            round.group == GROUP && round.runs.first().is_some_and(single)
        };
        let wait = device_wait(report.rounds.iter().find(at_depth_one)?, &self.device)?;
        Some((wait / self.latency).max(1.0))
    }
}

const GROUP: &str = "random read";

/// Maximum delay factor: above it, the delay varies too much from moment to moment for a single knee to exist.
const MAX_DELAY_FACTOR: f64 = 1.25;

fn check_knee(report: &BenchReport, known: &Known) -> Checked {
    let measured = || {
        let ceiling = report.ceilings.first()?;
        Some((ceiling, ceiling.knee?, known.delay_factor(report)?))
    };
    let Some((ceiling, knee, factor)) = measured() else { return Checked::no("knee") };
    let delayed = || format!("a quiet machine: a request alone took {factor:.2} times its channel");
    if let Some(busy) = busy_machine(report).or_else(|| (factor > MAX_DELAY_FACTOR).then(delayed)) {
        return Checked::missing(busy);
    }
    let (fewest, most) = (known.channels, (known.channels as f64 * factor).ceil() as u64);
    let found = format!(
        "knee at {}, {:.2} at once, {:.0} reads/s; alone {factor:.2} times its channel",
        knee.depth, knee.parallelism, ceiling.rate
    );
    let slack = u64::from(known.channels > 4);
    let agree = report.rounds.iter().filter(|r| r.group == GROUP).all(|r| agrees_with_device(r, &known.device));
    Checked::new(
        found,
        &[
            ((fewest - slack..=most + slack).contains(&knee.depth.into()), "the knee is elsewhere"),
            (near(knee.parallelism, known.channels as f64 * factor, 0.1), "the parallelism is off by more than 10 %"),
            (ceiling.reached && !ceiling.generator, "it was not reported as the ceiling"),
            (agree, "latencies differ from the device's own by more than 5 %"),
        ],
    )
}

/// Returns whether the latency of a run matches the device's own counters. On a busy machine the thread's run delay
/// adds to it and cannot be separated.
fn agrees_with_device(round: &Round, device: &str) -> bool {
    let Some((run, read)) = round.runs.first().and_then(|run| Some((run, run.read.as_ref()?))) else { return false };
    let Some(wait) = device_wait(round, device) else { return false };
    let delayed = run.generator.waited.is_some_and(|share| share > 0.02);
    if delayed { read.latency.mean > wait * 0.95 } else { near(read.latency.mean, wait, 0.05) }
}

/// Returns the mean time of a read in the device's queue and in service, in seconds.
fn device_wait(round: &Round, device: &str) -> Option<f64> {
    round.ledgers.first()?.layers.iter().find(|layer| layer.device == device)?.read_wait
}

pub const SHARED: BenchTrial = BenchTrial {
    name: "bench.shared",
    what: "two loop devices are files on one disk; they are found to share it",
    setup: |bed| {
        let spec = random_spec(bed);
        let mut disk = SimulatedDisk::new(bed, 4 * BYTES, spec)?;
        let dir = disk.device.ext4(bed, "mnt", &[])?;
        let mut device = |name| {
            write_file(&dir.join(name), BYTES)?;
            LoopDevice::over(bed, &dir.join(name))
        };
        let devices = [device("a")?, device("b")?];
        disk.enable_delays()?;
        Ok(contend(&devices, "they share", true))
    },
};

pub const APART: BenchTrial = BenchTrial {
    name: "bench.apart",
    what: "two disks share nothing; neither is found to slow the other down",
    setup: |bed| {
        let spec = random_spec(bed);
        let mut device = || -> Result<_> {
            let mut disk = SimulatedDisk::new(bed, BYTES, spec)?;
            disk.enable_delays()?;
            Ok(disk.device)
        };
        Ok(contend(&[device()?, device()?], "they are independent", false))
    },
};

const BYTES: u64 = 64 << 20;

fn random_spec(bed: &mut Testbed) -> DiskSpec {
    DiskSpec::new(Duration::from_micros(bed.range(2000..=4000)), bed.range(1..=4))
}

fn contend(devices: &[LoopDevice; 2], expected: &str, shared: bool) -> Benchmark {
    let args = ["contend", &node(&devices[0]), &node(&devices[1]), "--for", "2s"];
    Benchmark::new(&args, expected, move |report| {
        let Some(pair) = report.pairs.first() else { return Checked::no("pair") };
        Checked::new(
            format!("together they do {:.2}, known: {}", pair.sum, pair.known.join(" ")),
            &[
                (pair.contend == Some(shared), "the verdict is wrong"),
                (pair.known.is_empty() != shared, "what they are known to share is wrong"),
            ],
        )
    })
}

fn node(device: &LoopDevice) -> String {
    device.node.display().to_string()
}

/// Share of the CPUs used by others above which the server of a simulated disk is late, too, and the disk's speed is
/// unknown.
const BUSY: f64 = 0.5;

/// Reports a missing requirement if the machine was too busy for the disk to be as fast as specified.
fn busy_machine(report: &BenchReport) -> Option<String> {
    let environment = &report.environment;
    let share = environment.others_cpus.zip(environment.host.cpus).map(|(others, all)| others / f64::from(all.max(1)));
    let share = share.filter(|&share| share > BUSY)?;
    Some(format!("a quiet machine: others used {:.0} % of the CPUs", share * 100.0))
}
