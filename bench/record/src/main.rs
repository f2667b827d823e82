//! Measures the cost of recording in comparison with sadc, atop and pmlogger in one run: CPU time and bytes per sample,
//! resident memory, and wake-ups per second, at several numbers of processes.

mod pcp;
mod recorder;
mod report;

use clap::Parser;
use pcp::Pcp;
use recorder::{Recorder, Usage};
use report::{Measured, Report};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::program::{beside, status};
use whyslow_pairs::sleepers::{Sleepers, processes_now};
use whyslow_pairs::stop;

/// Measures what recording costs on this machine. Needs root, and a time in which nothing else runs.
#[derive(Parser)]
#[command(name = "bench-record", version)]
struct Args {
    /// Time at each number of processes; whyslow closes a segment every ten minutes
    #[arg(long, value_name = "SECONDS", default_value = "660", value_parser = clap::value_parser!(u64).range(10..))]
    seconds: u64,
    /// Numbers of processes
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_value = "300,1300,10000")]
    processes: Vec<usize>,
    /// The whyslow program [default: beside this program]
    #[arg(long, value_name = "PATH")]
    whyslow: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let told = measure(&args).map(|report| if args.json { println!("{}", report.json()) } else { print!("{report}") });
    status("bench-record", told)
}

fn measure(args: &Args) -> Result<Report> {
    /// Time for start-up, such as loading BPF programs, which is not part of a sample.
    const SETTLING: Duration = Duration::from_secs(15);
    stop::catch()?;
    let whyslow = beside(args.whyslow.as_ref(), "whyslow")?;
    let pcp = Pcp::find()?;
    let mut report = Report::default();
    for &processes in &args.processes {
        let _sleepers = Sleepers::up_to(processes)?;
        let count = processes_now()?;
        let mut recorders = Recorder::all(&whyslow, &pcp)?;
        stop::pause(SETTLING)?;
        let used =
            |recorders: &mut [Recorder]| recorders.iter_mut().map(Recorder::usage).collect::<Result<Vec<Usage>>>();
        let before = used(&mut recorders)?;
        stop::pause(Duration::from_secs(args.seconds))?;
        let after = used(&mut recorders)?;
        for (recorder, (before, after)) in recorders.iter_mut().zip(before.into_iter().zip(after)) {
            let at_the_end = recorder.finish()?;
            report.measured.push(Measured::between(recorder.name(), count, args.seconds, &before, &after, at_the_end));
        }
    }
    if report.measured.is_empty() { Err(Failure::new("--processes names no number")) } else { Ok(report) }
}
