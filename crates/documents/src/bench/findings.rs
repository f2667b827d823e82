//! Results derived from several rounds.

use super::Latency;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The maximum throughput of one kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// IOPS of the smallest block, or bandwidth of the largest.
    pub of: Limit,
    /// The kind of request: `random read`, `sequential write`, ...
    pub requests: String,
    /// Block size, bytes.
    pub block: u32,
    /// Maximum requests per second.
    pub rate: f64,
    /// Maximum bytes per second.
    pub bandwidth: f64,
    /// The knee: a deeper queue hardly adds throughput, only latency.
    pub knee: Option<Knee>,
    /// Whether the maximum was reached; otherwise it is at least this.
    pub reached: bool,
    /// Whether the CPU generating the load was the limit.
    pub generator: bool,
}

/// What a maximum counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Requests per second.
    Requests,
    /// Bytes per second.
    Bandwidth,
}

/// Where throughput stops rising with queue depth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    /// Queue depth of all jobs together.
    pub depth: u32,
    /// Requests per second there.
    pub rate: f64,
    /// Mean latency there, seconds.
    pub latency: f64,
    /// Mean latency at depth 1, seconds.
    pub latency_alone: f64,
    /// Requests the target works on at once: maximum times latency at depth 1 (Little's law; Lazowska et al.,
    /// Quantitative System Performance, 5.2).
    pub parallelism: f64,
}

/// A device that splits direct reads into smaller requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RequestSplit {
    /// The device whose counters are the first to show it; the disk of a partition.
    pub device: String,
    /// The smallest block size that it splits, bytes.
    pub from: u64,
    /// The largest block size that was measured, bytes.
    pub block: u64,
    /// Mean size of its requests for such a block, bytes.
    pub request: f64,
    /// The limit that explains all sizes, as in /sys/block/DEVICE/queue; `None` if none does.
    pub limit: Option<String>,
    /// The largest request that the limit allows, bytes.
    pub limit_bytes: Option<u64>,
}

/// The same reads at one layer below a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerResult {
    /// The group of its round.
    pub group: String,
    /// A device, or a way through the file system.
    pub name: String,
    /// Requests per second.
    pub rate: f64,
    /// Bytes per second.
    pub bandwidth: f64,
    /// Mean latency, seconds.
    pub latency: f64,
    /// CPU time of the reading thread per request, seconds.
    pub cost: Option<f64>,
    /// Mean request size at the lowest device, bytes.
    pub request: Option<f64>,
    /// Mean latency above that of the layer below, seconds; `None` for the lowest.
    pub adds: Option<f64>,
    /// Share of the bandwidth of the layer below that is lost; negative if gained.
    pub takes: Option<f64>,
}

/// One step with many small files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileWork {
    /// `create`, `stat`, `delete`, ...
    pub what: String,
    /// `sequential` by name, or `random`.
    pub order: String,
    /// Number of files.
    pub operations: u64,
    /// Total time, seconds.
    pub seconds: f64,
    /// Files per second.
    pub rate: f64,
    /// Time per file.
    pub latency: Latency,
    /// CPU time per file, seconds.
    pub cost: Option<f64>,
}

/// Two workloads, alone and together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interference {
    /// The target of each, or what it does.
    pub names: [String; 2],
    /// Requests per second of each alone.
    pub alone: [f64; 2],
    /// Requests per second of each while both run.
    pub together: [f64; 2],
    /// Share of its rate that each keeps.
    pub kept: [f64; 2],
    /// The sum of both shares: 2 for independent workloads, 1 for a shared bottleneck.
    pub sum: f64,
    /// Whether they interfere; `None` if the CPU was the limit, which hides it.
    pub contend: Option<bool>,
    /// Devices that both are known to use.
    pub known: Vec<String>,
}
