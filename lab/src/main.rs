//! Faults made on this machine's real kernel, and whyslow's answers to them judged. See README.md.

mod capture;
mod cgroup;
mod controls;
mod dice;
mod disk;
mod error;
mod expect;
mod faults;
mod figures;
mod firewall;
mod fsfreeze;
mod judge;
mod leash;
mod load;
mod netns;
mod observer;
mod report;
mod stage;
mod stolen;
mod stop;
mod swap;
mod sweep;
mod tool;
mod trial;
mod wire;
mod worker;
mod zram;

use clap::{Parser, Subcommand};
use error::{Error, Result};
use figures::Figure;
use observer::Observer;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use trial::{Mark, Outcome, Trial};

/// Makes faults on this machine's real kernel, runs whyslow against each, and judges the answer.
#[derive(Parser)]
#[command(name = "whyslow-lab", version)]
struct Args {
    #[command(subcommand)]
    load: Option<Hidden>,
    /// Only the quick subset.
    #[arg(long)]
    quick: bool,
    /// Only this trial; may be given more than once.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// The seed of all sizes, rates and numbers; the time of day where it is not given.
    #[arg(long)]
    seed: Option<u64>,
    /// The whyslow program; the one beside this program where it is not given.
    #[arg(long, value_name = "PATH")]
    whyslow: Option<PathBuf>,
    /// For how many seconds whyslow observes: 10 where it is not given, or 6 with --quick.
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Have whyslow do without BPF: every fault is to be found all the same.
    #[arg(long)]
    no_bpf: bool,
    /// Let `whyslow read` answer, too, to what vmstat, iostat, mpstat, pidstat, sar, ss and netstat print meanwhile.
    #[arg(long)]
    captures: bool,
    /// Print the outcomes as one JSON array.
    #[arg(long)]
    json: bool,
    /// List the trials and what each does, and run none.
    #[arg(long)]
    list: bool,
}

#[derive(Subcommand)]
enum Hidden {
    /// One of the lab's own load programs.
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

/// Whether nothing was wrong.
fn run(args: &Args) -> Result<bool> {
    let (trials, figures) = chosen(args)?;
    if args.list {
        trials.iter().for_each(|t| println!("{:<20} {}", t.name, t.what));
        figures.iter().for_each(|f| println!("{:<20} {}", f.name, f.what));
        return Ok(true);
    }
    if !nix::unistd::geteuid().is_root() {
        return Err(Error::failed("making faults takes root: run it with sudo"));
    }
    let observer = Observer {
        whyslow: whyslow(args)?,
        seconds: args.seconds.unwrap_or(if args.quick { 6 } else { 10 }),
        bpf: !args.no_bpf,
        captures: args.captures,
    };
    let seed = args.seed.unwrap_or_else(time_of_day);
    let _lock = sweep::lock()?;
    stop::catch()?;
    sweep::leftovers();
    let outcomes = carry_out(&trials, &figures, seed, &observer, args.json)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcomes)?);
    } else {
        println!("seed {seed}\n{}", report::summary(&outcomes));
    }
    Ok(outcomes.iter().all(|o| o.mark != Mark::Wrong))
}

fn carry_out(
    trials: &[&Trial],
    figures: &[&Figure],
    seed: u64,
    observer: &Observer,
    quiet: bool,
) -> Result<Vec<Outcome>> {
    if !quiet {
        println!("{}", report::heading());
    }
    let trials = trials.iter().map(|trial| trial.run(seed, observer));
    let mut outcomes = Vec::new();
    for outcome in trials.chain(figures.iter().map(|figure| figure.run(seed, observer))) {
        let outcome = outcome?;
        if !quiet {
            println!("{}", report::row(&outcome));
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

fn chosen(args: &Args) -> Result<(Vec<&'static Trial>, Vec<&'static Figure>)> {
    let all = || faults::ALL.iter().chain(controls::ALL);
    let known = |name: &str| all().any(|t| t.name == name) || figures::ALL.iter().any(|f| f.name == name);
    if let Some(unknown) = args.only.iter().find(|name| !known(name)) {
        return Err(Error::failed(format!("no trial is called {unknown}: see whyslow-lab --list")));
    }
    let named = |name: &str| args.only.is_empty() || args.only.iter().any(|n| n == name);
    let trials = all().filter(|t| named(t.name) && (!args.quick || t.quick));
    let figures = figures::ALL.iter().filter(|f| named(f.name) && !args.quick);
    Ok((trials.collect(), figures.collect()))
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
