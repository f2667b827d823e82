//! Generating load: which request comes next, when, and what is counted.

mod job;
mod request_stream;
mod run_stats;

pub(crate) use job::{JobResult, JobStart, LoadJob, since};
pub(crate) use run_stats::{LatencyHistogram, MeasuredSpan, RequestTimes, RunStats};

/// 4 KiB random reads at depth 1, for tests.
#[cfg(test)]
pub(crate) fn sample() -> whyslow_model::bench::Workload {
    use whyslow_model::bench::Workload;
    Workload { size: 1 << 20, seconds: Some(1.0), ..Workload::of_blocks(4096) }
}
