//! `whyslow bench fs`.

use super::{bytes, seconds, watched};
use crate::options::duration;
use crate::output::Failure;
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use whyslow_bench::fs::{self, FsOptions, FsPart};
use whyslow_model::bench::BenchReport;

/// Options of `bench fs`.
#[derive(Debug, Args)]
pub struct FsArgs {
    /// A folder, in which temporary files are created, written, read and removed
    folder: PathBuf,
    /// Parts to measure [default: all]
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    only: Vec<PartName>,
    /// Duration of each timed run
    #[arg(long = "for", value_name = "TIME", default_value = "2s", value_parser = duration)]
    time: Duration,
    /// Size of the streamed file; choose more than the memory to measure storage and not the page cache
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = bytes)]
    size: u64,
    /// Number of small files
    #[arg(long, value_name = "COUNT", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: u32,
    /// Seed for random orders
    #[arg(long, default_value = "1")]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PartName {
    // No doc comments here: clap would draw each as a paragraph of the help.
    Streams,
    Requests,
    Files,
    Together,
}

impl PartName {
    fn part(self) -> FsPart {
        match self {
            Self::Streams => FsPart::Streams,
            Self::Requests => FsPart::Requests,
            Self::Files => FsPart::Files,
            Self::Together => FsPart::Together,
        }
    }
}

pub(super) fn measure(args: &FsArgs) -> Result<BenchReport, Failure> {
    let parts = if args.only.is_empty() { PartName::value_variants() } else { &args.only };
    let asked = FsOptions {
        folder: args.folder.clone(),
        parts: parts.iter().map(|name| name.part()).collect(),
        size: args.size,
        files: args.files,
        seconds: seconds(args.time)?,
        seed: args.seed,
    };
    watched(|stop, watch| fs::measure(&asked, stop, watch))
}
