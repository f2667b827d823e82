//! What crates/sense/bpf/sched.bpf.c keeps in its maps, field by field.

use crate::os::tick_ns;
use whyslow_model::histogram::Histogram;
use whyslow_model::key::TaskKey;

/// Buckets of a latency, up to 2^37 ns.
const LATENCIES: usize = (37 - 4) * 32;

/// A process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub(super) struct Owner {
    /// Nanoseconds since boot.
    start: u64,
    pid: u32,
    tid: u32,
}

impl Owner {
    /// As the catalogue names it.
    pub(super) fn key(self) -> TaskKey {
        TaskKey { pid: self.pid, tid: self.tid, start: self.start / tick_ns() }
    }
}

/// Where threads of a process wait.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Place {
    pub(super) owner: Owner,
    /// Number of the stack; negative where it could not be kept.
    pub(super) stack: i32,
    /// 1 where futex(2) was called for a lock.
    pub(super) lock: u32,
}

/// Waits of a process' threads for a processor that were about equally long.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct WaitOf {
    pub(super) owner: Owner,
    bucket: u64,
}

impl WaitOf {
    /// The bucket of a [`Histogram`]; `None` where it is none.
    pub(super) fn bucket(&self) -> Option<u32> {
        self.bucket.try_into().ok()
    }
}

/// How long and how often.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(super) struct Waited {
    pub(super) ns: u64,
    pub(super) times: u64,
}

/// Moves from processor to processor.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Moves {
    pub(super) waking: u64,
    pub(super) running: u64,
    pub(super) queued: u64,
}

/// Run-queue latencies on one processor.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Latency {
    count: [u64; LATENCIES],
}

impl Latency {
    pub(super) fn histogram(&self) -> Histogram {
        Histogram::from_counts((0..).zip(self.count))
    }
}

// SAFETY: each consists of whole numbers without gaps between them, for which all bytes make a value.
unsafe impl aya::Pod for Owner {}
// SAFETY: as above.
unsafe impl aya::Pod for Place {}
// SAFETY: as above.
unsafe impl aya::Pod for WaitOf {}
// SAFETY: as above.
unsafe impl aya::Pod for Waited {}
// SAFETY: as above.
unsafe impl aya::Pod for Moves {}
// SAFETY: as above.
unsafe impl aya::Pod for Latency {}
