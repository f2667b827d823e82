//! Benchmarks: generate a known load and measure its effect.
//!
//! A [`Workload`](whyslow_documents::bench::Workload) describes the load. Targets are opened so that no existing data is at
//! risk, an I/O engine submits requests to the kernel, statistics are collected on completions, and I/O accounting
//! compares the requested I/O with the counts of each layer of the storage stack.

mod accounting;
mod available_memory;
mod bench_session;
mod budget;
mod buffer_pattern;
pub mod contend;
pub mod cpu;
mod cpu_topology;
pub mod disk;
mod drop_caches;
mod engine;
mod environment;
mod extents;
pub mod fio;
pub mod fs;
pub mod layers;
mod load;
pub mod memory;
mod memory_region;
pub mod net;
mod page_cache;
mod permutation;
mod plateau;
mod request_splits;
mod round;
#[cfg(test)]
#[path = "../../../tests/skip/mod.rs"]
mod skip;
mod study;
pub mod target;

pub use drop_caches::drop_caches;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Reason why a benchmark cannot run: what failed, where, and what to do. One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error with this text.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    /// Creates an error about an operation on a path.
    pub(crate) fn at(path: &Path, doing: &str, error: &io::Error) -> Self {
        Self(format!("{}: {doing}: {error}", path.display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Progress of a benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Current step.
    pub doing: &'a str,
    /// Seconds since the benchmark began.
    pub elapsed: f64,
    /// Total duration in seconds; `None` if unknown.
    pub whole: Option<f64>,
}

/// Progress callback, called several times a second.
pub(crate) type ProgressFn<'a> = &'a mut dyn FnMut(Progress);

/// Flag that ends a benchmark early. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

/// Setting the flag requests the stop.
impl From<Arc<AtomicBool>> for Stop {
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}

impl Stop {
    /// Requests the end of the benchmark: results so far are kept, temporary files removed.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether [`Stop::ask`] was called.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Removes the leftovers of killed runs, which are named after their PIDs: calls `remove` for each entry whose name
/// consists of `prefix` and a PID without a process. Leaves what cannot be removed to the next run.
pub fn remove_leftovers(folder: &Path, prefix: &str, remove: impl Fn(&Path, &std::fs::Metadata) -> io::Result<()>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.strip_prefix(prefix)?.parse::<u32>().ok());
        let is_dead = |pid| !Path::new(&format!("/proc/{pid}")).exists();
        if pid.is_some_and(is_dead)
            && let Ok(metadata) = entry.metadata()
        {
            let _ = remove(&entry.path(), &metadata);
        }
    }
}
