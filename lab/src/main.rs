//! Injects faults on this machine's real kernel, and judges what whyslow finds. See README.md.

mod bench;
mod capture;
mod cgroup;
mod command;
mod disk;
mod error;
mod expect;
mod interrupt;
mod judge;
mod leftovers;
mod link;
mod load;
mod load_process;
mod netns;
mod observer;
mod run;
mod swap;
mod testbed;
mod trial;
mod trials;

use bench::BenchTrial;
use clap::{Parser, Subcommand};
use error::{Error, Result};
use observer::Observer;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use trial::{Mark, Outcome, Trial};

/// Injects faults on this machine's real kernel, runs whyslow against each, and judges the answer
#[derive(Parser)]
#[command(name = "whyslow-lab", version)]
struct Args {
    #[command(subcommand)]
    load: Option<Hidden>,
    /// Run only the quick subset
    #[arg(long)]
    quick: bool,
    /// Run only this trial; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Seed of all sizes, rates and counts [default: the time of day]
    #[arg(long)]
    seed: Option<u64>,
    /// The whyslow program [default: the one beside this program]
    #[arg(long, value_name = "PATH")]
    whyslow: Option<PathBuf>,
    /// How many seconds whyslow observes [default: 10, or 6 with --quick]
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Run whyslow without BPF: it must find every fault all the same
    #[arg(long)]
    no_bpf: bool,
    /// Also run `whyslow read` on what vmstat, iostat, mpstat, pidstat, sar, ss and netstat print during the fault
    #[arg(long)]
    captures: bool,
    /// Print the outcomes as a JSON array
    #[arg(long)]
    json: bool,
    /// List the trials and what each does
    #[arg(long)]
    list: bool,
}

#[derive(Subcommand)]
enum Hidden {
    /// One of the lab's load programs
    #[command(hide = true)]
    Load {
        #[command(subcommand)]
        load: load::Load,
    },
}

fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(Hidden::Load { load }) = args.load {
        return load.run();
    }
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Error::Interrupted) => ExitCode::from(130),
        Err(e) => {
            eprintln!("whyslow-lab: {e}");
            ExitCode::from(2)
        }
    }
}

/// Whether no trial went wrong.
fn run(args: &Args) -> Result<bool> {
    let (trials, bench_trials) = selected(args)?;
    if args.list {
        trials.iter().for_each(|t| println!("{:<24} {}", t.name, t.what));
        bench_trials.iter().for_each(|t| println!("{:<24} {}", t.name, t.what));
        return Ok(true);
    }
    if !nix::unistd::geteuid().is_root() {
        return Err(Error::failed("injecting faults requires root: run it with sudo"));
    }
    let observer = Observer {
        whyslow: whyslow(args)?,
        seconds: args.seconds.unwrap_or(if args.quick { 6 } else { 10 }),
        bpf: !args.no_bpf,
        captures: args.captures,
    };
    let seed = args.seed.unwrap_or_else(time_of_day);
    let _lock = leftovers::lock()?;
    interrupt::install_handlers()?;
    leftovers::remove_all();
    let outcomes = run_all(&trials, &bench_trials, seed, &observer, args.json)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcomes)?);
    } else {
        println!("seed {seed}\n{}", run::summary(&outcomes));
    }
    Ok(outcomes.iter().all(|o| o.mark != Mark::Wrong))
}

fn run_all(
    trials: &[&Trial],
    bench_trials: &[&BenchTrial],
    seed: u64,
    observer: &Observer,
    quiet: bool,
) -> Result<Vec<Outcome>> {
    if !quiet {
        println!("{}", run::heading());
    }
    let trials = trials.iter().map(|trial| run::run(trial, seed, observer));
    let mut outcomes = Vec::new();
    for outcome in trials.chain(bench_trials.iter().map(|trial| trial.run(seed, observer))) {
        let outcome = outcome?;
        if !quiet {
            println!("{}", run::row(&outcome));
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

fn selected(args: &Args) -> Result<(Vec<&'static Trial>, Vec<&'static BenchTrial>)> {
    let exists = |name: &str| trials::all().any(|t| t.name == name) || bench::TRIALS.iter().any(|t| t.name == name);
    if let Some(unknown) = args.only.iter().find(|name| !exists(name)) {
        return Err(Error::failed(format!("no trial is called {unknown}: see whyslow-lab --list")));
    }
    let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|n| n == name);
    let trials = trials::all().filter(|t| wanted(t.name) && (!args.quick || t.quick));
    let bench_trials = bench::TRIALS.iter().filter(|t| wanted(t.name) && !args.quick);
    Ok((trials.collect(), bench_trials.collect()))
}

fn whyslow(args: &Args) -> Result<PathBuf> {
    let path = match &args.whyslow {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("whyslow"),
    };
    let missing = || Error::failed(format!("{}: no such program: build it, or name it with --whyslow", path.display()));
    path.is_file().then(|| path.clone()).ok_or_else(missing)
}

fn time_of_day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
}
