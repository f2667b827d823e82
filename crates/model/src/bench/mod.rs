//! What a benchmark measured, `whyslow.bench/1`. Public interface, described in docs/bench.md. Fields may be added; these
//! stay.

mod accounting;
mod findings;
mod median;
mod net;
mod study;
mod workload;

pub use accounting::{CacheUse, IoAccounting, LayerTraffic, Traffic};
pub use findings::{Ceiling, FileWork, Knee, Layer, Limit, Pair};
pub use median::Median;
pub use net::{
    Datagrams, Direction, Loaded, NetEnd, NetLoad, NetRound, NetRun, NetSeries, NetStream, Network, PathMtu, Peer,
    Size, Sizes, Spread, StreamTime, Transport, Work,
};
pub use study::{Figure, Study};
pub use workload::{Access, Block, Cache, Engine, Sync, Workload};

use crate::diagnosis::Host;
use crate::histogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.bench/1";

/// What was measured, on which machine, and what it comes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Which benchmark it was.
    pub kind: Kind,
    /// When it began, RFC 3339.
    pub started: Option<String>,
    /// The same in milliseconds since 1970.
    pub started_ms: Option<i64>,
    /// How long it took in all.
    pub seconds: f64,
    /// Whether it was ended early: what is here was measured, but not all that was asked for.
    pub interrupted: bool,
    /// On what machine, and what else ran there.
    pub environment: Environment,
    /// What was measured: one target, or those that were set against each other.
    pub targets: Vec<Target>,
    /// What ran, in order.
    pub rounds: Vec<Round>,
    /// The ceilings a sweep found; empty where there was none.
    pub ceilings: Vec<Ceiling>,
    /// What each layer of a mount adds and takes, from the device up; empty where that was not measured.
    #[serde(default)]
    pub layers: Vec<Layer>,
    /// What was done with many small files; empty where nothing was.
    #[serde(default)]
    pub files: Vec<FileWork>,
    /// How much targets lose when they are used together; empty where that was not measured.
    #[serde(default)]
    pub pairs: Vec<Pair>,
    /// Figures of memory and processors; empty where none were measured.
    #[serde(default)]
    pub studies: Vec<Study>,
    /// What was measured of the network; none of other benchmarks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// What is to be borne in mind about these numbers.
    pub caveats: Vec<String>,
}

/// Which benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The shape of a disk: block size, depth, jobs.
    Disk,
    /// The jobs of a file in fio's format.
    Job,
    /// One reader after the other at every layer of a mount.
    Layers,
    /// Targets alone and together.
    Contend,
    /// What a file system does: streams, small files, commits, and all of it at once.
    Fs,
    /// Bandwidth and latency of memory, what page faults cost.
    Memory,
    /// What processors do together, how soon threads run, what calls of the kernel cost.
    Cpu,
    /// What the network between two machines does.
    Net,
}

/// Where it was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The machine.
    pub host: Host,
    /// Settings that bear on the numbers, by the path or name the kernel has for them.
    pub settings: BTreeMap<String, String>,
    /// Processors that others kept busy meanwhile, on average.
    pub others_cpus: Option<f64>,
    /// Who else read or wrote meanwhile, the largest first.
    pub others: Vec<Other>,
}

/// A process that did I/O of its own while others were measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Other {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Bytes it had read from storage.
    pub read_bytes: u64,
    /// Bytes it gave to storage, or to the page cache to be written.
    pub write_bytes: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// As it was named.
    pub path: String,
    /// `device`, `partition`, `file`, or `folder` in which a file was made and removed.
    pub kind: String,
    /// The kernel's name of the block device it is or lies on; none where there is none.
    pub device: Option<String>,
    /// The type of its file system; none for a device.
    pub file_system: Option<String>,
    /// Where that is mounted, and how.
    pub mount: Option<String>,
    /// What lies below the device, from the top down, by the kernel's names.
    pub below: Vec<String>,
    /// Its size, or that of the file measured, bytes.
    pub bytes: u64,
}

/// What ran at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// What it is for, in a few words.
    pub name: String,
    /// What it is a part of: rounds of one group follow each other and are compared.
    pub group: String,
    /// The loads of this round.
    pub runs: Vec<Run>,
    /// What each target's layers saw of it.
    pub ledgers: Vec<IoAccounting>,
    /// Why its numbers are not to be trusted; none where nothing speaks against them.
    pub spoiled: Option<String>,
}

/// One load and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its name.
    pub name: String,
    /// Its target, by place in [`Report::targets`].
    pub target: usize,
    /// What was asked for.
    pub asked: Workload,
    /// The time measured, seconds.
    pub seconds: f64,
    /// Reads; none where none were asked for.
    pub read: Option<Flow>,
    /// Writes.
    pub write: Option<Flow>,
    /// Syncs.
    pub sync: Option<Flow>,
    /// The course of it.
    pub series: Series,
    /// What it cost in processor time.
    pub cost: Cost,
    /// Whether who made the load was what limited it.
    pub generator: Generator,
    /// What ended it before its time; none where nothing did.
    pub failed: Option<String>,
    /// Requests that had not come back seconds after the end.
    pub hung: u64,
    /// Requests that were due by the end, as the rate asked for has it, and had not even been made.
    pub behind: u64,
}

/// Requests of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Requests completed in the time measured.
    pub operations: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Requests a second.
    pub rate: f64,
    /// Bytes a second.
    pub bandwidth: f64,
    /// How long requests took that were made in the time measured: from when they were due, where a rate was asked for,
    /// else from when they were made.
    pub latency: Latency,
    /// The same from when they were handed to the kernel; none where no rate was asked for.
    pub service: Option<Latency>,
}

/// How long requests took. Seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Of how many requests.
    pub count: u64,
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// The longest.
    pub max: f64,
    /// Percentiles, in order.
    pub percentiles: Vec<Percentile>,
    /// All of them, in nanoseconds.
    pub histogram: Histogram,
}

impl Latency {
    /// The shares of which a percentile is given unless others are asked for.
    pub const SHARES: [f64; 9] = [0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999];

    /// The time below which this share of requests stayed; none where that is not known.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        self.percentiles.iter().find(|p| p.share == share).map(|p| p.seconds)
    }
}

/// A percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// The share of requests, 0..1.
    pub share: f64,
    /// None of these took longer.
    pub seconds: f64,
}

/// The course of a run in intervals of one length. One in which nothing came back is a zero like any other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The length of an interval, seconds; the last may be cut short.
    pub interval: f64,
    /// Reads completed in each.
    pub reads: Vec<u64>,
    /// Bytes of them.
    pub read_bytes: Vec<u64>,
    /// Writes completed in each.
    pub writes: Vec<u64>,
    /// Bytes of them.
    pub write_bytes: Vec<u64>,
    /// The longest latency among those completed in each, seconds.
    pub longest: Vec<f64>,
}

impl Series {
    /// Stretches in which no request came back: first interval and how many.
    pub fn stalls(&self) -> Vec<(usize, usize)> {
        stretches(self.reads.iter().zip(&self.writes).map(|(reads, writes)| reads + writes == 0))
    }
}

/// Stretches of intervals that are idle: first and how many.
fn stretches(idle: impl Iterator<Item = bool>) -> Vec<(usize, usize)> {
    let mut stretches: Vec<(usize, usize)> = Vec::new();
    for (at, _) in idle.enumerate().filter(|(_, idle)| *idle) {
        match stretches.last_mut() {
            Some((first, length)) if *first + *length == at => *length += 1,
            _ => stretches.push((at, 1)),
        }
    }
    stretches
}

/// Processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The time over which it is counted, that of all threads added up, what is not measured at the start included, seconds.
    pub thread_seconds: f64,
    /// That of the threads that made the load, outside the kernel, seconds.
    pub user_seconds: f64,
    /// The same, in the kernel on their behalf.
    pub system_seconds: f64,
    /// Both, for each request; none where there was none.
    pub per_operation: Option<f64>,
    /// Times those threads gave up a processor, or were made to.
    pub context_switches: u64,
    /// That of the whole machine meanwhile, interrupts and kernel threads included, for each request; of what ran in the
    /// same round together. None where it is not known.
    pub machine_per_operation: Option<f64>,
}

/// Who made the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// The part of the time its busiest thread was on a processor and did not only look whether something was done; none where
    /// it is not known.
    pub busy: Option<f64>,
    /// The part of the time that thread had work but waited for a processor.
    pub waited: Option<f64>,
    /// Whether it was the limit: the target may be able to do more.
    pub was_limit: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_without_a_request_are_stalls() {
        let series = Series {
            interval: 0.1,
            reads: vec![0, 3, 0, 0, 2, 0],
            writes: vec![0, 0, 0, 0, 0, 1],
            ..Series::default()
        };
        assert_eq!(series.stalls(), [(0, 1), (2, 2)]);
        assert_eq!(Series::default().stalls(), []);
    }
}
