//! Benchmarks: generate a known load, and measure what came of it.
//!
//! A [`Workload`](whyslow_model::bench::Workload) describes the load. A target is opened so that no existing data is at risk,
//! an I/O engine carries requests to the kernel, statistics are taken of completions, and I/O accounting compares what was
//! asked for with what each layer of the storage stack counted.

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

/// Why a benchmark cannot run: what, where, and what to do. One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with this text.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    /// What failed on a path.
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

/// How far a benchmark is.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// The current step.
    pub doing: &'a str,
    /// Seconds since it began.
    pub elapsed: f64,
    /// Seconds it takes in all; `None` if unknown.
    pub whole: Option<f64>,
}

/// Called several times a second.
pub(crate) type ProgressFn<'a> = &'a mut dyn FnMut(Progress);

/// Ends a benchmark early. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

/// Raising the flag asks it.
impl From<Arc<AtomicBool>> for Stop {
    fn from(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }
}

impl Stop {
    /// Ends what is running: results up to then are kept, temporary files removed.
    pub fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`Stop::ask`] was called.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a killed run left behind is named after its PID, and the next run removes it: calls `remove` for each entry named
/// PREFIX and a PID that no process has. What cannot be removed is left to the run after that.
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
