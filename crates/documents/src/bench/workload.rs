//! The load that a benchmark generates.

use super::Latency;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Requests to one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// The I/O engine.
    pub engine: Engine,
    /// Whether completions are polled for instead of signalled by interrupts; io_uring only.
    #[serde(default)]
    pub poll: bool,
    /// Whether direct I/O bypasses the page cache (O_DIRECT).
    pub direct: bool,
    /// What to do with the page cache before.
    pub cache: Cache,
    /// The order of offsets.
    pub access: AccessPattern,
    /// Share of reads; the others are writes.
    pub reads: f64,
    /// Whether each block is read and then written back, as bonnie++ rewrites; at depth 1 only.
    #[serde(default)]
    pub rewrite: bool,
    /// Block sizes of reads.
    pub read_blocks: Vec<BlockSize>,
    /// Block sizes of writes.
    pub write_blocks: Vec<BlockSize>,
    /// Whether sequential jobs split the region; otherwise each goes through all of it.
    pub split: bool,
    /// Queue depth of each job.
    pub depth: u32,
    /// Number of jobs, each a thread.
    pub jobs: u32,
    /// Start of the region in the target, bytes.
    pub start: u64,
    /// Size of the region, bytes.
    pub size: u64,
    /// When to sync.
    pub sync: Option<SyncPolicy>,
    /// Fixed rate of all jobs, requests per second. Requests are due at set times, and waiting to be issued is part of
    /// their latency.
    pub rate: Option<f64>,
    /// Pause of a job after each request, seconds.
    pub pause: f64,
    /// CPUs the threads are pinned to; empty for any.
    pub cpus: Vec<u32>,
    /// Whether writes carry their offset (`verify_pattern=%o` of fio), and reads check it.
    pub verify: bool,
    /// Measured time, seconds; `None` ends with the bytes.
    pub seconds: Option<f64>,
    /// Maximum bytes per job; `None` ends with the time.
    pub bytes: Option<u64>,
    /// Unmeasured time at the start, seconds.
    pub ramp_seconds: f64,
    /// Seed of random numbers.
    pub seed: u64,
    /// Percentiles to report, as shares.
    pub percentiles: Vec<f64>,
}

impl Workload {
    /// Creates a workload of random direct reads at depth 1, without a time limit, on an empty region: a base for other
    /// workloads.
    pub fn of_blocks(bytes: u32) -> Self {
        let blocks = vec![BlockSize { bytes, share: 1.0 }];
        Self {
            engine: Engine::IoUring,
            poll: false,
            direct: true,
            cache: Cache::AsIs,
            access: AccessPattern::Uniform,
            reads: 1.0,
            rewrite: false,
            read_blocks: blocks.clone(),
            write_blocks: blocks,
            split: true,
            depth: 1,
            jobs: 1,
            start: 0,
            size: 0,
            sync: None,
            rate: None,
            pause: 0.0,
            cpus: Vec::new(),
            verify: false,
            seconds: None,
            bytes: None,
            ramp_seconds: 0.0,
            seed: 1,
            percentiles: Latency::SHARES.to_vec(),
        }
    }

    /// Returns the largest block size of reads and writes, in bytes.
    pub fn largest_block(&self) -> u32 {
        self.read_blocks.iter().chain(&self.write_blocks).map(|block| block.bytes).max().unwrap_or(0)
    }

    /// Returns the smallest block size of reads and writes, in bytes.
    pub fn smallest_block(&self) -> u32 {
        self.read_blocks.iter().chain(&self.write_blocks).map(|block| block.bytes).min().unwrap_or(0)
    }

    /// Returns whether the workload has reads.
    pub fn does_read(&self) -> bool {
        self.reads > 0.0
    }

    /// Returns whether the workload has writes.
    pub fn does_write(&self) -> bool {
        self.reads < 1.0
    }
}

/// An I/O engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// io_uring(7), with registered buffers and files.
    IoUring,
    /// pread(2) and pwrite(2): one request in flight per job.
    Psync,
    /// Copying from and to mmap(2): one request in flight per job, through the page cache.
    Mmap,
}

/// What to do with the page cache before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// Nothing.
    AsIs,
    /// Drop the target from it.
    Cold,
    /// Drop the target, and limit this program, page cache included, to so many bytes with a memory cgroup.
    Small(u64),
}

/// The order of offsets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccessPattern {
    /// Each request starts where the last ended.
    Sequential,
    /// With a gap of so many bytes between requests; negative goes backward.
    Strided(i64),
    /// Uniformly random.
    Uniform,
    /// Random, each block once before any is repeated.
    Shuffled,
    /// Zipf distributed with this exponent; which block has which rank is random.
    Zipf(f64),
}

/// A block size and its share.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BlockSize {
    /// Bytes.
    pub bytes: u32,
    /// Its share.
    pub share: f64,
}

/// When to sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncPolicy {
    /// After so many writes of a job; `None` only at the end.
    pub every: Option<u32>,
    /// fdatasync(2) instead of fsync(2).
    pub data_only: bool,
}
