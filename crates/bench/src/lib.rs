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
mod cgroup;
pub mod contend;
pub mod cpu;
mod cpu_topology;
pub mod disk;
mod engine;
mod environment;
mod error;
mod extents;
pub mod fio;
pub mod fs;
pub mod layers;
mod leftovers;
mod load;
pub mod memory;
mod memory_region;
pub mod net;
mod page_cache;
mod permutation;
mod plateau;
mod progress;
mod round;
#[cfg(test)]
#[path = "../../../tests/skip/mod.rs"]
mod skip;
mod study;
pub mod target;

pub use error::Error;
pub use progress::{Progress, Stop};
