//! What load a benchmark makes.

use super::Latency;
use serde::{Deserialize, Serialize};

/// Requests to one target: which, how large, how many at once, for how long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// How requests reach the kernel.
    pub engine: Engine,
    /// Whether completions are polled for instead of being told of by interrupts; io_uring only.
    #[serde(default)]
    pub poll: bool,
    /// Whether the page cache is passed by (O_DIRECT).
    pub direct: bool,
    /// What is done about the page cache beforehand.
    pub cache: Cache,
    /// Where requests go.
    pub access: Access,
    /// The share of requests that read; the others write.
    pub reads: f64,
    /// Whether each block that is read is then written back to its place, as bonnie++ rewrites: reads and writes take turns,
    /// whatever their share. For jobs that have one request in flight.
    #[serde(default)]
    pub rewrite: bool,
    /// Sizes of reads, with their shares.
    pub read_blocks: Vec<Block>,
    /// Sizes of writes, with their shares.
    pub write_blocks: Vec<Block>,
    /// Whether jobs that go forward or backward share the region out among them; otherwise each goes through all of it.
    pub split: bool,
    /// Requests each job keeps in flight.
    pub depth: u32,
    /// Jobs, each a thread with requests of its own.
    pub jobs: u32,
    /// Where in the target the region begins, bytes.
    pub start: u64,
    /// How long the region is, bytes.
    pub size: u64,
    /// Writes after which the target is synced; none is never.
    pub sync: Option<Sync>,
    /// Requests a second over all jobs. Requests are due at set times, whether the target keeps up or not, and the time they
    /// wait for their turn is part of their latency. None is as many as the target takes.
    pub rate: Option<f64>,
    /// How long a job pauses after each request, seconds.
    pub pause: f64,
    /// The processors its threads keep to; none is any.
    pub cpus: Vec<u32>,
    /// Whether writes carry their offset, as 64 bits in little-endian order over and over (`verify_pattern=%o` of fio), and
    /// reads check it.
    pub verify: bool,
    /// For how long, seconds; none is until the bytes are done.
    pub seconds: Option<f64>,
    /// How many bytes each job moves at most; none is until the time is up.
    pub bytes: Option<u64>,
    /// Time at the start that is not measured, seconds.
    pub ramp_seconds: f64,
    /// What random numbers come of.
    pub seed: u64,
    /// The shares of requests of which percentiles are told.
    pub percentiles: Vec<f64>,
}

impl Workload {
    /// Random reads of blocks of one size, past the page cache, one at a time, without end, of nothing yet: where other
    /// workloads begin.
    pub fn of_blocks(bytes: u32) -> Self {
        let blocks = vec![Block { bytes, share: 1.0 }];
        Self {
            engine: Engine::IoUring,
            poll: false,
            direct: true,
            cache: Cache::AsIs,
            access: Access::Uniform,
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

    /// The largest block of either direction, bytes.
    pub fn largest_block(&self) -> u32 {
        self.read_blocks.iter().chain(&self.write_blocks).map(|block| block.bytes).max().unwrap_or(0)
    }

    /// The smallest block of either direction, bytes.
    pub fn smallest_block(&self) -> u32 {
        self.read_blocks.iter().chain(&self.write_blocks).map(|block| block.bytes).min().unwrap_or(0)
    }

    /// Whether anything is read.
    pub fn does_read(&self) -> bool {
        self.reads > 0.0
    }

    /// Whether anything is written.
    pub fn does_write(&self) -> bool {
        self.reads < 1.0
    }
}

/// How requests reach the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// io_uring(7), with registered buffers and files: as many in flight as asked for.
    IoUring,
    /// pread(2) and pwrite(2): one in flight for each job.
    Psync,
    /// Memory copied from and to mmap(2): one in flight for each job, always by way of the page cache.
    Mmap,
}

/// What is done about the page cache before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cache {
    /// Nothing: what is in it stays there.
    AsIs,
    /// What belongs to the target is dropped, and nothing else.
    Cold,
    /// The same, and a memory control group holds this program, its cache included, to so many bytes.
    Small(u64),
}

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Each where the one before ended.
    Sequential,
    /// So many bytes between the end of a request and the beginning of the next; less than nothing goes backward.
    Strided(i64),
    /// Anywhere, each block as likely as any other.
    Uniform,
    /// Anywhere, in an order in which every block comes once before one comes again.
    Shuffled,
    /// The block of rank k has a chance in proportion to k to the power of minus this; which block has which rank is random.
    Zipf(f64),
}

/// A size of requests and how large a share of them has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// The size.
    pub bytes: u32,
    /// Its share.
    pub share: f64,
}

/// When a target is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sync {
    /// After how many writes of a job; none is only at its end.
    pub every: Option<u32>,
    /// Whether only what is needed to read the data back is written: fdatasync(2), not fsync(2).
    pub data_only: bool,
}
