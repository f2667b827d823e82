//! What the numbers of several rounds come to.

use super::Latency;
use serde::{Deserialize, Serialize};

/// What a sweep found a target can do of one kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// `requests` of the smallest block, or `bandwidth` of the largest.
    pub of: Limit,
    /// What kind of requests: `random read`, `sequential write`, ...
    pub requests: String,
    /// The block, bytes.
    pub block: u32,
    /// Requests a second at most.
    pub rate: f64,
    /// Bytes a second at most.
    pub bandwidth: f64,
    /// Requests in flight from which on more of them hardly bring more, but only wait: the knee.
    pub knee: Option<Knee>,
    /// Whether the ceiling was reached; otherwise the target can do at least this.
    pub reached: bool,
    /// Whether who made the load was the limit, not the target.
    pub generator: bool,
}

/// What a ceiling is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Requests a second.
    Requests,
    /// Bytes a second.
    Bandwidth,
}

/// Where more requests in flight cease to bring more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// Requests in flight, all jobs together.
    pub depth: u32,
    /// Requests a second there.
    pub rate: f64,
    /// Mean latency there, seconds.
    pub latency: f64,
    /// Mean latency with one request in flight, seconds.
    pub latency_alone: f64,
    /// Requests that the target works on at once at its ceiling, had it no queue: ceiling times the latency alone (Little's
    /// law; Lazowska et al., Quantitative System Performance, 5.2).
    pub parallelism: f64,
}

/// The same reads, at one layer of a mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Which reads: the group of its round.
    pub group: String,
    /// The layer: a device by the kernel's name, or the way through the file system.
    pub name: String,
    /// Requests a second.
    pub rate: f64,
    /// Bytes a second.
    pub bandwidth: f64,
    /// Mean latency, seconds.
    pub latency: f64,
    /// Processor time of the thread that asked, for each request, seconds.
    pub cost: Option<f64>,
    /// Bytes of a request as the lowest device saw it; none where nothing reached it.
    pub request: Option<f64>,
    /// Mean latency above that of the layer below, seconds; none at the lowest.
    pub adds: Option<f64>,
    /// The part of the bandwidth of the layer below that is lost on the way; less than nothing where some is won.
    pub takes: Option<f64>,
}

/// One thing done with many small files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileWork {
    /// What: `create`, `stat`, `delete`, ...
    pub what: String,
    /// In what order: `sequential` by name, or `random`.
    pub order: String,
    /// How often.
    pub operations: u64,
    /// The time it took in all, seconds.
    pub seconds: f64,
    /// How often a second.
    pub rate: f64,
    /// How long each took.
    pub latency: Latency,
    /// Processor time of the thread that did it, for each, seconds.
    pub cost: Option<f64>,
}

/// Two loads, alone and together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// What each is called: its target, or what it does.
    pub names: [String; 2],
    /// Requests a second of each alone.
    pub alone: [f64; 2],
    /// Requests a second of each while both run.
    pub together: [f64; 2],
    /// What is left of each: together by alone.
    pub kept: [f64; 2],
    /// What the two do together, alone being 1 for each: 2 where they have nothing in common, 1 where one has to wait for the
    /// other.
    pub sum: f64,
    /// Whether they contend for something; none where the processor was the limit, and it cannot be told.
    pub contend: Option<bool>,
    /// The devices that both are known to rest on.
    pub known: Vec<String>,
}
