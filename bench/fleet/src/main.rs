//! Simulated fleets: how rightly `whyslow-fleet why` names what was planted in them.

mod causes;
mod simulate;

use causes::Causes;
use clap::Parser;
use std::process::ExitCode;

/// Simulates fleets with a planted cause and without, and measures whether it is named.
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
    /// Write JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let causes = Causes::measure(args.fleets, args.seed, args.hosts as usize);
    if args.json {
        match serde_json::to_string_pretty(&causes) {
            Ok(text) => println!("{text}"),
            Err(error) => {
                eprintln!("bench-fleet: {error}");
                return ExitCode::from(2);
            }
        }
    } else {
        print!("{causes}");
    }
    if causes.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
