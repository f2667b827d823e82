//! I/O accounting: the I/O that a benchmark issued, compared with the counts of each layer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One target in one round, including the ramp.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IoAccounting {
    /// Index into the report's targets.
    pub target: usize,
    /// Requests of all runs on this target.
    pub asked: Traffic,
    /// What the page cache did; `None` with direct I/O, or if unknown.
    pub cache: Option<CacheTraffic>,
    /// The block devices below, the topmost first, with all their requests, including those of other processes.
    pub layers: Vec<LayerTraffic>,
    /// Bytes read from the topmost device beyond this program's own reads (/proc/self/io), by other processes. `None`
    /// if unknown.
    pub foreign_read_bytes: Option<u64>,
    /// Bytes written to the topmost device beyond those asked for, by other processes or the file system itself. `None`
    /// with buffered I/O, because the page cache decides when to write.
    pub foreign_write_bytes: Option<u64>,
}

/// Requests and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Traffic {
    /// Reads.
    pub reads: u64,
    /// Bytes of them.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of them.
    pub write_bytes: u64,
    /// Syncs, or flushes of a device's cache.
    pub flushes: u64,
}

/// What the page cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheTraffic {
    /// Cached bytes of the target at the start.
    pub before: u64,
    /// Cached bytes at the end.
    pub after: u64,
    /// Bytes this program read from storage (/proc/self/io), including readahead.
    pub fetched: u64,
    /// Bytes read without being fetched.
    pub served: u64,
    /// Bytes fetched but not asked for: useless readahead.
    pub in_vain: u64,
}

/// What a block device counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayerTraffic {
    /// Its name.
    pub device: String,
    /// How it is used by the device above: `target`, `file system`, `partition`, `loop`, `dm`, `md`.
    pub relation: String,
    /// Requests it completed.
    pub traffic: Traffic,
    /// Reads merged into others.
    pub reads_merged: u64,
    /// Writes merged into others.
    pub writes_merged: u64,
    /// Mean time of a read, including its wait in the queue, seconds.
    pub read_wait: Option<f64>,
    /// Mean time of a write.
    pub write_wait: Option<f64>,
    /// Mean number of requests in flight.
    pub queue: Option<f64>,
    /// Share of the time with a request in flight.
    pub busy: Option<f64>,
    /// Its largest request, bytes.
    pub largest_request: Option<u64>,
}

impl Traffic {
    /// Returns the sum of both.
    pub fn plus(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            write_bytes: self.write_bytes + other.write_bytes,
            flushes: self.flushes + other.flushes,
        }
    }
}
