//! Simulated fleets: how rightly `whyslow-fleet why` names what was planted in them, and how fast `whyslow-fleet sick` answers.

mod causes;
mod sick;
mod simulate;
mod store;

use causes::Causes;
use clap::Parser;
use sick::Question;
use std::path::PathBuf;
use std::process::ExitCode;
use whyslow_pairs::failure::Result;
use whyslow_pairs::program::beside;
use whyslow_pairs::stop;

/// Simulates fleets with a planted cause and without, and measures whether it is named; with --sizes, how fast fleets of these sizes
/// are asked.
#[derive(Parser)]
#[command(name = "bench-fleet", version)]
struct Args {
    /// How many fleets with a planted cause, and as many without
    #[arg(long, default_value = "40", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    fleets: u64,
    /// Hosts of each fleet
    #[arg(long, default_value = "300", value_parser = clap::value_parser!(u32).range(40..=100_000))]
    hosts: u32,
    /// The seed of the first fleet
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Write stores of fleets of these sizes, and ask them
    #[arg(long, value_name = "HOSTS", value_delimiter = ',')]
    sizes: Vec<usize>,
    /// Hours of each store
    #[arg(long, default_value = "24", value_parser = clap::value_parser!(u32).range(1..=168))]
    hours: u32,
    /// How often `sick` is asked
    #[arg(long, default_value = "20")]
    runs: usize,
    /// Files as hosts ship them, instead of one for each table and hour
    #[arg(long)]
    incoming: bool,
    /// Where stores are made, and left [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// The whyslow-fleet program; the one beside this program where it is not given
    #[arg(long, value_name = "PATH")]
    whyslow_fleet: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let holds = if args.sizes.is_empty() { causes(&args) } else { sizes(&args) };
    match holds {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("bench-fleet: {failure}");
            ExitCode::from(2)
        }
    }
}

fn causes(args: &Args) -> Result<bool> {
    let causes = Causes::measure(args.fleets, args.seed, args.hosts as usize);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&causes)?);
    } else {
        print!("{causes}");
    }
    Ok(causes.holds())
}

fn sizes(args: &Args) -> Result<bool> {
    stop::catch()?;
    let whyslow_fleet = beside(args.whyslow_fleet.as_ref(), "whyslow-fleet")?;
    let mut own = tempfile::Builder::new();
    let own = own.prefix("wsl-bench-").tempdir()?;
    let question = Question {
        whyslow_fleet: &whyslow_fleet,
        folder: args.into.as_deref().unwrap_or(own.path()),
        hours: args.hours,
        runs: args.runs,
        seed: args.seed,
        is_compacted: !args.incoming,
    };
    let mut are_right = true;
    for hosts in &args.sizes {
        let size = sick::measure(*hosts, &question)?;
        if args.json {
            println!("{}", serde_json::to_string(&size)?);
        } else {
            print!("{size}");
        }
        are_right &= size.is_right();
    }
    Ok(are_right)
}
