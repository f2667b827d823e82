//! What was asked for against what each layer saw.

use serde::{Deserialize, Serialize};

/// The books of one target over one round, from the first request to the last, times that are not measured included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IoAccounting {
    /// The target, by place in the report's list.
    pub target: usize,
    /// What was asked of it, by all that ran against it.
    pub asked: Traffic,
    /// What became of it in the page cache; none where the cache was passed by, or is not known.
    pub cache: Option<CacheUse>,
    /// What each block device below saw, the topmost first. All it saw: others' requests too.
    pub layers: Vec<LayerTraffic>,
    /// Bytes that were read from the topmost device beyond what this program had it read (/proc/self/io): those of others.
    /// None where that is not known.
    pub foreign_read_bytes: Option<u64>,
    /// Bytes written to the topmost device beyond what was asked for: those of others, and what the file system writes for
    /// itself. None where the page cache decides what is written when.
    pub foreign_write_bytes: Option<u64>,
}

/// Requests and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheUse {
    /// Bytes of the region that were in it at the start.
    pub before: u64,
    /// The same at the end.
    pub after: u64,
    /// Bytes that this program had read from storage (/proc/self/io), read ahead or asked for.
    pub fetched: u64,
    /// Bytes that were read and had not to be fetched for it.
    pub served: u64,
    /// Bytes that were fetched and not asked for: read ahead in vain.
    pub in_vain: u64,
}

/// What a block device saw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LayerTraffic {
    /// Its name.
    pub device: String,
    /// What it is to the one above: `target`, `file system`, `partition`, `loop`, `dm`, `md`.
    pub relation: String,
    /// Requests it completed.
    pub traffic: Traffic,
    /// Reads that were merged into another before they were issued.
    pub reads_merged: u64,
    /// The same of writes.
    pub writes_merged: u64,
    /// The time a read took on average, its wait in the queue included, seconds; none where there was none.
    pub read_wait: Option<f64>,
    /// The same of writes.
    pub write_wait: Option<f64>,
    /// Requests outstanding on average.
    pub queue: Option<f64>,
    /// The part of the time in which any was.
    pub busy: Option<f64>,
    /// The largest request it takes, bytes.
    pub largest_request: Option<u64>,
}

impl Traffic {
    /// Both together.
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
