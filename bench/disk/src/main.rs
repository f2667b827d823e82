//! Compares whyslow's load with that of fio, dd and bonnie++, in pairs. See README.md.

mod cases;
mod compare;
mod peer;
mod rig;

use cases::Case;
use clap::Parser;
use compare::compare;
use rig::Rig;
use std::process::ExitCode;
use whyslow_pairs::failure::Result;
use whyslow_pairs::options::Options;
use whyslow_pairs::program::status;
use whyslow_pairs::stop;

/// Compares whyslow with fio, dd and bonnie++ on the same jobs. Needs root, and some minutes in which nothing else
/// runs.
#[derive(Parser)]
#[command(name = "bench-disk", version)]
struct Args {
    #[command(flatten)]
    options: Options,
    /// Measured time of each run
    #[arg(long, value_name = "SECONDS", default_value = "2")]
    seconds: u32,
}

fn main() -> ExitCode {
    status("bench-disk", run(&Args::parse()))
}

fn run(Args { options, seconds }: &Args) -> Result<()> {
    stop::catch()?;
    let whyslow = options.whyslow()?;
    let rig = Rig::new()?;
    let name = |case: &Case| case.name.clone();
    options.measure(&cases::all(&rig), name, |case| compare(case, &whyslow, options.pairs, *seconds))
}
