//! Compares whyslow's streams with iperf3's, in pairs. See README.md.

mod compare;
mod rig;

use clap::Parser;
use compare::{Case, compare};
use rig::Rig;
use std::process::ExitCode;
use whyslow_pairs::failure::Result;
use whyslow_pairs::options::Options;
use whyslow_pairs::program::status;
use whyslow_pairs::stop;

/// Compares whyslow and iperf3 on loopback and a veth pair. Needs root, and some minutes in which nothing else runs.
#[derive(Parser)]
#[command(name = "bench-net", version)]
struct Args {
    #[command(flatten)]
    options: Options,
    /// Measured time of each run
    #[arg(long, value_name = "SECONDS", default_value = "3")]
    seconds: u32,
}

fn main() -> ExitCode {
    status("bench-net", run(&Args::parse()))
}

fn run(Args { options, seconds }: &Args) -> Result<()> {
    stop::catch()?;
    let rig = Rig::new(options.whyslow()?)?;
    options.measure(&Case::all(), Case::name, |case| compare(case, &rig, options.pairs, *seconds))
}
