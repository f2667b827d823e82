//! Injects faults on this machine's real kernel, and judges whyslow's findings. See README.md.

mod bench;
mod blind;
mod capture;
mod cgroup;
mod command;
mod commands;
mod container;
mod disk;
mod error;
mod expect;
mod gain;
mod interrupt;
mod judge;
mod kernel_setting;
mod leftovers;
mod link;
mod load;
mod load_process;
mod matrix;
mod netns;
mod noise;
mod observer;
mod outcomes;
mod plan;
mod power;
mod practice;
mod program;
mod recording;
mod run;
mod swap;
mod testbed;
mod trial;
mod trials;
mod vm;

use blind::Blind;
use clap::{Parser, Subcommand};
use error::{Error, Result};
use observer::Observer;
use plan::{Plan, Selection};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use trial::{Mark, Outcome};
use vm::Images;

/// Injects faults on this machine's real kernel, runs whyslow against each, and judges the answer
#[derive(Parser)]
#[command(name = "whyslow-lab", version)]
struct Args {
    #[command(subcommand)]
    command: Option<Job>,
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
    /// Run every trial with this many seeds, of which --seed is the first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Also run harmless programs in the background, which the seed chooses
    #[arg(long)]
    noise: bool,
    /// Run only the healthy controls
    #[arg(long)]
    controls: bool,
    /// Repeat the trials with new seeds until whyslow has observed for so many minutes
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    minutes: Option<u64>,
    /// How many seconds whyslow observes [default: 10, or 6 with --quick]
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Run whyslow without this, as on a machine that lacks it: it must find the fault, or say what it cannot see. May be repeated:
    /// every trial is run without each
    #[arg(long, value_name = "WHAT", value_enum)]
    without: Vec<Blind>,
    /// Run whyslow without BPF: unlike with `--without bpf`, it must find every fault all the same
    #[arg(long)]
    no_bpf: bool,
    /// Also run `whyslow read` on what vmstat, iostat, mpstat, pidstat, sar, ss and netstat print during the fault
    #[arg(long)]
    captures: bool,
    /// Run only faults, also try the setting that whyslow recommends against each, and compare the gain that it promised with the
    /// measured one
    #[arg(long, conflicts_with_all = ["controls", "without", "captures"])]
    gains: bool,
    /// Also record the fault and explain the recording: it must name the same first cause
    #[arg(long)]
    recordings: bool,
    /// Also run stack, expect, tune and try on the device, interface or control group that the fault is about, in a virtual machine
    #[arg(long)]
    commands: bool,
    /// Keep whyslow's whole answers in the outcomes that --json prints
    #[arg(long)]
    answers: bool,
    /// Run the trials in a virtual machine with the kernel of this Debian suite, such as bookworm; may be repeated. Without --only
    /// these are the trials that need one
    #[arg(long, value_name = "SUITE", conflicts_with_all = ["without", "minutes"])]
    vm: Vec<String>,
    /// The folder that lab/vm/build-images.sh has filled
    #[arg(long, value_name = "DIR", default_value = "target/lab-vm", requires = "vm")]
    images: PathBuf,
    /// Print the outcomes as a JSON array
    #[arg(long)]
    json: bool,
    /// List the trials and what each does
    #[arg(long)]
    list: bool,
}

#[derive(Subcommand)]
enum Job {
    /// Write the confusion matrix of runs into a document
    Matrix {
        /// What these runs printed with --json
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// The document
        #[arg(long, value_name = "FILE", default_value = "docs/accuracy.md")]
        into: PathBuf,
    },
    /// Write the promised and the measured gains of runs with --gains into a document
    Gains {
        /// What these runs printed with --json
        #[arg(required = true)]
        runs: Vec<PathBuf>,
        /// The document
        #[arg(long, value_name = "FILE", default_value = "docs/accuracy.md")]
        into: PathBuf,
    },
    /// Inject a fault and keep it until Ctrl-C, for practice
    Hold {
        /// The trial, such as disk.saturated: see --list
        #[arg(value_name = "NAME")]
        name: String,
        /// Start a virtual machine with the kernel of this Debian suite, such as bookworm, and inject it there; needs no root
        #[arg(long, value_name = "SUITE")]
        vm: Option<String>,
        /// The folder that lab/vm/build-images.sh has filled
        #[arg(long, value_name = "DIR", default_value = "target/lab-vm", requires = "vm")]
        images: PathBuf,
        /// The program that is in the virtual machine [default: beside this one]
        #[arg(long, value_name = "PROGRAM", requires = "vm")]
        whyslow: Option<PathBuf>,
        /// Seed of all sizes, rates and counts [default: the time of day]
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Reboot a virtual machine and cut its power while whyslow records and changes settings, and check what is left
    Power {
        /// The Debian suite whose kernel it has
        #[arg(long, default_value = "bookworm")]
        vm: String,
        /// The folder that lab/vm/build-images.sh has filled
        #[arg(long, value_name = "DIR", default_value = "target/lab-vm")]
        images: PathBuf,
        /// How many times the power is cut
        #[arg(long, value_name = "N", default_value_t = 20)]
        cuts: u32,
        /// Seed of the moments [default: the time of day]
        #[arg(long)]
        seed: Option<u64>,
        /// The whyslow program [default: the one beside this program]
        #[arg(long, value_name = "PATH")]
        whyslow: Option<PathBuf>,
        /// Print the checks as a JSON array
        #[arg(long)]
        json: bool,
    },
    /// One of the lab's load programs
    #[command(hide = true)]
    Load {
        #[command(subcommand)]
        load: load::Load,
    },
}

fn main() -> ExitCode {
    let mut args = Args::parse();
    let done = match args.command.take() {
        Some(Job::Load { load }) => return load.run(),
        Some(Job::Matrix { runs, into }) => outcomes::write(&runs, &into, "lab", matrix::tables).map(|()| true),
        Some(Job::Hold { name, vm, images, whyslow, seed }) => {
            hold(&name, seed.unwrap_or_else(time_of_day), vm.as_deref(), &images, whyslow.as_deref()).map(|()| true)
        }
        Some(Job::Power { vm, images, cuts, seed, whyslow, json }) => {
            power(&vm, &images, cuts, seed.unwrap_or_else(time_of_day), whyslow.as_deref(), json)
        }
        Some(Job::Gains { runs, into }) => outcomes::write(&runs, &into, "gains", gain::table).map(|()| true),
        None => run(&args),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Error::Interrupted) => ExitCode::from(130),
        Err(e) => {
            eprintln!("whyslow-lab: {e}");
            ExitCode::from(2)
        }
    }
}

/// Runs the selected trials. Returns whether none went wrong.
fn run(args: &Args) -> Result<bool> {
    let in_vm = !args.vm.is_empty();
    let selection =
        Selection { only: &args.only, quick: args.quick, controls: args.controls, faults: args.gains, in_vm };
    let (trials, bench_trials) = selection.trials()?;
    if args.list {
        trials.iter().for_each(|t| println!("{:<24} {}", t.name, t.what));
        bench_trials.iter().for_each(|t| println!("{:<24} {}", t.name, t.what));
        return Ok(true);
    }
    if !in_vm && !nix::unistd::geteuid().is_root() {
        return Err(Error::failed("injecting faults requires root: run it with sudo"));
    }
    if args.commands && !in_vm && !vm::is_guest() {
        return Err(Error::failed("--commands changes settings of the machine: name a kernel, --vm bookworm"));
    }
    let observer = Observer {
        whyslow: whyslow(args.whyslow.as_deref())?,
        seconds: args.seconds.unwrap_or(if args.quick { 6 } else { 10 }),
        bpf: !args.no_bpf,
        without: None,
        captures: args.captures,
        noise: args.noise,
        gains: args.gains,
        recordings: args.recordings,
        commands: args.commands,
        answers: args.answers,
    };
    let plan = Plan {
        trials,
        bench_trials,
        seed: args.seed.unwrap_or_else(time_of_day),
        seeds: args.seeds,
        blind: args.without.clone(),
        total: args.minutes.map(|minutes| Duration::from_secs(60 * minutes)),
    };
    interrupt::install_handlers()?;
    if !args.json {
        println!("{}", run::heading());
    }
    let report = |outcome: &Outcome| {
        if !args.json {
            println!("{}", run::row(outcome));
        }
    };
    let outcomes = if in_vm {
        plan.run_in_vms(&Images::open(&args.images, observer.whyslow.clone())?, &args.vm, &observer, report)?
    } else {
        let _lock = leftovers::lock()?;
        leftovers::remove_all();
        plan.run(&observer, report)?
    };
    if args.json {
        println!("{}", serde_json::to_string_pretty(&outcomes)?);
    } else {
        println!("seed {}\n{}", plan.seed, run::summary(&outcomes));
        if args.gains {
            println!("{}", gain::summary(&outcomes));
        }
    }
    Ok(outcomes.iter().all(|o| o.mark != Mark::Wrong) && gain::is_kept(&outcomes))
}

fn hold(name: &str, seed: u64, suite: Option<&str>, images: &Path, program: Option<&Path>) -> Result<()> {
    match suite {
        None => practice::hold(name, seed),
        Some(suite) => practice::hold_in_vm(name, seed, &Images::open(images, whyslow(program)?)?, suite),
    }
}

/// Runs the power-cut checks. Returns whether all of them hold.
fn power(suite: &str, images: &Path, cuts: u32, seed: u64, program: Option<&Path>, json: bool) -> Result<bool> {
    interrupt::install_handlers()?;
    let images = Images::open(images, whyslow(program)?)?;
    let mut checks = Vec::new();
    let ended = power::run(&images, suite, cuts, seed, &mut |check| {
        if !json {
            println!("{check}");
        }
        checks.push(check);
    });
    let right = checks.iter().filter(|check| check.is_right()).count();
    if json {
        println!("{}", serde_json::to_string_pretty(&checks)?);
    } else {
        println!("seed {seed}: {right} of {} right", checks.len());
    }
    ended.map(|()| right == checks.len())
}

fn whyslow(program: Option<&Path>) -> Result<PathBuf> {
    let path = match program {
        Some(path) => path.to_owned(),
        None => std::env::current_exe()?.with_file_name("whyslow"),
    };
    let missing = || Error::failed(format!("{}: no such program: build it, or name it with --whyslow", path.display()));
    path.is_file().then(|| path.clone()).ok_or_else(missing)
}

fn time_of_day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs())
}
