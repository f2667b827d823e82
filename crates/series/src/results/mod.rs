//! Charts of benchmarks and experiments: by queue depth, size, percentile or pair instead of time.

mod bench;
mod labelled;
mod trial;

pub use bench::charts_of_bench;
pub use trial::{charts_of_trial, charts_of_walk};
