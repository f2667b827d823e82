//! whyslow's streams beside iperf3's: the same path, in pairs. See README.md.

mod compare;
mod rig;

use clap::Parser;
use compare::{Case, Comparison, compare};
use rig::Rig;
use std::path::PathBuf;
use std::process::ExitCode;
use whyslow_pairs::failure::Result;
use whyslow_pairs::program::{beside, status};
use whyslow_pairs::stop;

/// Runs whyslow and iperf3 in pairs over loopback and a veth pair. Needs root, and some minutes in which nothing else runs.
#[derive(Parser)]
#[command(name = "bench-net", version)]
struct Args {
    /// Only cases whose name holds this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// How often each program runs each case
    #[arg(long, value_name = "COUNT", default_value = "10")]
    pairs: usize,
    /// How long each run is measured
    #[arg(long, value_name = "SECONDS", default_value = "3")]
    seconds: u32,
    /// The whyslow program; the one beside this program where it is not given
    #[arg(long, value_name = "PATH")]
    whyslow: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    status("bench-net", run(&Args::parse()))
}

fn run(args: &Args) -> Result<()> {
    stop::catch()?;
    let whyslow = beside(args.whyslow.as_ref(), "whyslow")?;
    let rig = Rig::new(&whyslow)?;
    let mut all = Vec::new();
    for case in Case::all().iter().filter(|case| case.name().contains(&args.only)) {
        let found = compare(case, &rig, args.pairs, args.seconds)?;
        if !args.json {
            println!("{}", row(&found));
        }
        all.push(found);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(())
}

fn row(found: &Comparison) -> String {
    let gigabits = |bits: f64| bits / 1e9;
    format!("{:<34} iperf3 {:>6.2} Gbit/s  ratio {}", found.case, gigabits(found.iperf3), found.ratio)
}
