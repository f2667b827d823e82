//! whyslow's load beside that of fio, dd and bonnie++, in pairs. See README.md.

mod cases;
mod compare;
mod peer;
mod rig;

use clap::Parser;
use compare::{Comparison, compare};
use rig::Rig;
use std::path::PathBuf;
use std::process::ExitCode;
use whyslow_pairs::failure::Result;
use whyslow_pairs::program::{beside, status};
use whyslow_pairs::stop;

/// Runs whyslow in pairs with fio, dd and bonnie++ on the same jobs. Needs root, and some minutes in which nothing else runs.
#[derive(Parser)]
#[command(name = "bench-disk", version)]
struct Args {
    /// Only cases whose name holds this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// How often each program runs each case
    #[arg(long, value_name = "COUNT", default_value = "10")]
    pairs: usize,
    /// How long each run is measured
    #[arg(long, value_name = "SECONDS", default_value = "2")]
    seconds: u32,
    /// The whyslow program; the one beside this program where it is not given
    #[arg(long, value_name = "PATH")]
    whyslow: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    status("bench-disk", run(&Args::parse()))
}

fn run(args: &Args) -> Result<()> {
    stop::catch()?;
    let whyslow = beside(args.whyslow.as_ref(), "whyslow")?;
    let rig = Rig::new()?;
    let mut all = Vec::new();
    for case in cases::all(&rig).iter().filter(|case| case.name.contains(&args.only)) {
        let found = compare(case, &rig, &whyslow, args.pairs, args.seconds)?;
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
    let cost = found.cost.as_ref().map_or_else(String::new, |cost| format!("  cpu {cost}"));
    format!("{:<32} peer {:>13.0}/s  rate {}{cost}", found.case, found.peer_rate, found.rate)
}
