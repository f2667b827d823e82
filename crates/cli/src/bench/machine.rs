//! `whyslow bench memory` and `whyslow bench cpu`.

use super::{bytes, seconds, watched};
use crate::options::duration;
use crate::output::Failure;
use clap::Args;
use std::time::Duration;
use whyslow_bench::cpu::{self, CpuOptions};
use whyslow_bench::memory::{self, MemoryOptions};
use whyslow_model::bench::BenchReport;

/// Options of `bench memory`.
#[derive(Debug, Args)]
pub struct MemoryArgs {
    /// Duration of each measurement
    #[arg(long = "for", value_name = "TIME", default_value = "100ms", value_parser = duration)]
    time: Duration,
    /// Largest working set [default: four times the caches, from 64M to 256M]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    size: Option<u64>,
}

/// Options of `bench cpu`.
#[derive(Debug, Args)]
pub struct CpuArgs {
    /// Duration of each measurement; wake-ups take ten times as long
    #[arg(long = "for", value_name = "TIME", default_value = "100ms", value_parser = duration)]
    time: Duration,
}

pub(super) fn measure_memory(args: &MemoryArgs) -> Result<BenchReport, Failure> {
    let asked = MemoryOptions { most: args.size, seconds: seconds(args.time)? };
    watched(|stop, watch| memory::measure(&asked, stop, watch))
}

pub(super) fn measure_cpu(args: &CpuArgs) -> Result<BenchReport, Failure> {
    let asked = CpuOptions { seconds: seconds(args.time)? };
    watched(|stop, watch| cpu::measure(&asked, stop, watch))
}
