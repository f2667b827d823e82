//! The result of a benchmark, `whyslow.bench/1`. Public interface, described in docs/bench.md. Fields may be added;
//! existing ones do not change.

mod accounting;
mod caches;
mod findings;
mod median;
mod net;
mod study;
mod workload;

pub use accounting::{CacheTraffic, IoAccounting, LayerTraffic, Traffic};
pub use caches::{CacheSizes, DroppedCaches};
pub use findings::{Ceiling, FileWork, Interference, Knee, LayerResult, Limit, RequestSplit};
pub use median::Median;
pub use net::{
    Datagrams, Direction, Loaded, NetEnd, NetLoad, NetRound, NetRun, NetSeries, NetStream, Network, PathMtu, Peer,
    SampleStats, Size, Sizes, StreamTime, Transport, Work,
};
pub use study::{Measurement, SizeKnee, Study};
pub use workload::{AccessPattern, BlockSize, Cache, Engine, SyncPolicy, Workload};

use crate::diagnosis::Host;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use whyslow_model::histogram::Histogram;

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.bench/1";

/// The result of a benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchReport {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The kind of benchmark.
    pub kind: BenchKind,
    /// Start time, RFC 3339.
    pub started: Option<String>,
    /// Start time, milliseconds since 1970.
    pub started_ms: Option<i64>,
    /// Total time, seconds.
    pub seconds: f64,
    /// Whether it was ended early, so that results are incomplete.
    pub interrupted: bool,
    /// The machine, and what else ran on it.
    pub environment: Environment,
    /// What was measured.
    pub targets: Vec<TargetInfo>,
    /// What ran, in order.
    pub rounds: Vec<Round>,
    /// Maximum throughput by kind of request; of `disk`.
    pub ceilings: Vec<Ceiling>,
    /// Devices that split requests; of `disk`.
    #[serde(default)]
    pub splits: Vec<RequestSplit>,
    /// The cost of each layer below a file; of `layers`.
    #[serde(default)]
    pub layers: Vec<LayerResult>,
    /// Small files; of `fs`.
    #[serde(default)]
    pub files: Vec<FileWork>,
    /// Interference; of `contend` and `fs`.
    #[serde(default)]
    pub pairs: Vec<Interference>,
    /// Figures that were measured repeatedly.
    #[serde(default)]
    pub studies: Vec<Study>,
    /// Results of `net`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// Notes on the results.
    pub caveats: Vec<String>,
}

/// A kind of benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BenchKind {
    /// IOPS and bandwidth of a disk by queue depth and block size.
    Disk,
    /// The jobs of a fio job file.
    Job,
    /// One file read at every layer below it.
    Layers,
    /// Targets alone and in pairs.
    Contend,
    /// A file system: streams, small files, syncs, and their interference.
    Fs,
    /// Memory bandwidth, latency and page faults.
    Memory,
    /// Scaling, wake-up latency, context switches and system calls.
    Cpu,
    /// The network between two machines.
    Net,
}

/// The machine during a benchmark.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// The machine.
    pub host: Host,
    /// Settings that affect the results, by path.
    pub settings: BTreeMap<String, String>,
    /// Mean CPUs used by other processes.
    pub others_cpus: Option<f64>,
    /// Other processes that did I/O, the largest first.
    pub others: Vec<OtherProcess>,
}

/// Another process that did I/O during the benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OtherProcess {
    /// Its PID.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Bytes read from storage.
    pub read_bytes: u64,
    /// Bytes written to storage, or to the page cache.
    pub write_bytes: u64,
}

/// A target of a benchmark.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetInfo {
    /// As given on the command line.
    pub path: String,
    /// `device`, `partition`, `file`, or `folder` with a temporary file.
    pub kind: String,
    /// The block device it is or lies on.
    pub device: Option<String>,
    /// The type of its file system; `None` for a device.
    pub file_system: Option<String>,
    /// The mount point and its options.
    pub mount: Option<String>,
    /// The devices below, from the top down.
    pub below: Vec<String>,
    /// Its size, or that of the temporary file, bytes.
    pub bytes: u64,
}

/// Runs at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// What it is for, in a few words.
    pub name: String,
    /// Rounds of a group are consecutive and compared.
    pub group: String,
    /// The loads of this round.
    pub runs: Vec<DiskRun>,
    /// I/O accounting of each target.
    pub ledgers: Vec<IoAccounting>,
    /// Why its results are unreliable, if they are.
    pub spoiled: Option<String>,
}

/// One workload and its results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiskRun {
    /// Its name.
    pub name: String,
    /// Index into [`BenchReport::targets`].
    pub target: usize,
    /// The workload.
    pub asked: Workload,
    /// Measured time, seconds.
    pub seconds: f64,
    /// Reads; `None` if there were to be none.
    pub read: Option<RequestStats>,
    /// Writes.
    pub write: Option<RequestStats>,
    /// Syncs.
    pub sync: Option<RequestStats>,
    /// The time series.
    pub series: DiskSeries,
    /// CPU time.
    pub cost: CpuCost,
    /// Whether the CPU generating the load was the limit.
    pub generator: Generator,
    /// What ended it early.
    pub failed: Option<String>,
    /// Requests that never completed.
    pub hung: u64,
    /// Requests that were due at a fixed rate but never issued.
    pub behind: u64,
}

/// Requests of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestStats {
    /// Requests completed in the measured time.
    pub operations: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Requests per second.
    pub rate: f64,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Latency of requests issued in the measured time: from when they were due at a fixed rate, else from when they
    /// were issued.
    pub latency: Latency,
    /// The same from when they were issued; `None` without a fixed rate.
    pub service: Option<Latency>,
}

/// Latencies, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Number of requests.
    pub count: u64,
    /// Minimum.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// Maximum.
    pub max: f64,
    /// Percentiles, in order.
    pub percentiles: Vec<Percentile>,
    /// In nanoseconds.
    pub histogram: Histogram,
}

impl Latency {
    /// Default percentiles, as fractions.
    pub const SHARES: [f64; 9] = [0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999];

    /// Returns the latency that this share of requests does not exceed.
    pub fn percentile(&self, share: f64) -> Option<f64> {
        self.percentiles.iter().find(|p| p.share == share).map(|p| p.seconds)
    }
}

/// A percentile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentile {
    /// The share of requests, from 0 to 1.
    pub share: f64,
    /// None of these took longer.
    pub seconds: f64,
}

/// A time series with intervals of one length; intervals without completions are zeros.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiskSeries {
    /// Length of an interval, seconds; the last may be shorter.
    pub interval: f64,
    /// Reads completed.
    pub reads: Vec<u64>,
    /// Bytes of them.
    pub read_bytes: Vec<u64>,
    /// Writes completed.
    pub writes: Vec<u64>,
    /// Bytes of them.
    pub write_bytes: Vec<u64>,
    /// The longest latency of those completed, seconds.
    pub longest: Vec<f64>,
}

impl DiskSeries {
    /// Returns the runs of intervals without completions: first interval and number of intervals.
    pub fn stalls(&self) -> Vec<(usize, usize)> {
        stretches(self.reads.iter().zip(&self.writes).map(|(reads, writes)| reads + writes == 0))
    }
}

/// Returns the runs of idle intervals: first interval and number of intervals.
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

/// CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuCost {
    /// Wall-clock time of all threads added up, including the ramp, seconds.
    pub thread_seconds: f64,
    /// User time of the load-generating threads, seconds.
    pub user_seconds: f64,
    /// System time of the load-generating threads, seconds.
    pub system_seconds: f64,
    /// Both per request.
    pub per_operation: Option<f64>,
    /// Voluntary and involuntary context switches of those threads.
    pub context_switches: u64,
    /// CPU time of the whole machine per request of the round, including interrupts and kernel threads.
    pub machine_per_operation: Option<f64>,
}

/// The threads generating the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Generator {
    /// Share of the time its busiest thread was on a CPU.
    pub busy: Option<f64>,
    /// Share of the time that thread waited for a CPU.
    pub waited: Option<f64>,
    /// Whether it was the limit, so that the target may be able to do more.
    pub was_limit: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_without_a_request_are_stalls() {
        let series = DiskSeries {
            interval: 0.1,
            reads: vec![0, 3, 0, 0, 2, 0],
            writes: vec![0, 0, 0, 0, 0, 1],
            ..DiskSeries::default()
        };
        assert_eq!(series.stalls(), [(0, 1), (2, 2)]);
        assert_eq!(DiskSeries::default().stalls(), []);
    }
}
