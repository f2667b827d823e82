//! Measures the cost of observing: CPU time by source at several numbers of processes, slow-down of four loads, and the
//! cost of other observers. See README.md.

mod cost;
mod loads;
mod observers;
mod probes;
mod report;
mod rig;
mod slowdown;
mod taken;

use clap::{Parser, ValueEnum};

use report::Report;
use std::path::PathBuf;
use std::process::ExitCode;
use whyslow_pairs::failure::Result;
use whyslow_pairs::program::{beside, status};
use whyslow_pairs::stop;

/// Measures whyslow's own overhead on this machine. Needs root, and some minutes in which nothing else runs.
#[derive(Parser)]
#[command(name = "bench-sense", version)]
struct Args {
    /// Quick: few samples and pairs, and not the largest number of processes
    #[arg(long)]
    quick: bool,
    /// Only this part; may be repeated
    #[arg(long, value_enum)]
    only: Vec<Part>,
    /// Only loads whose name contains this
    #[arg(long, value_name = "TEXT")]
    load: Option<String>,
    /// Pairs of runs without and with whyslow
    #[arg(long, value_name = "COUNT")]
    pairs: Option<usize>,
    /// The whyslow program [default: beside this program]
    #[arg(long, value_name = "PATH")]
    whyslow: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// CPU time by source.
    Cost,
    /// Slow-down of loads.
    Slowdown,
    /// CPU time of BPF programs per call, by source.
    Probes,
    /// Cost of whole programs.
    Observers,
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn whyslow(&self) -> Result<PathBuf> {
        beside(self.whyslow.as_ref(), "whyslow")
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let mut report = Report::default();
    let measured = measure(&args, &mut report);
    if args.json {
        println!("{}", report.json());
    } else {
        print!("{report}");
    }
    status("bench-sense", measured)
}

/// Runs the selected parts. If one fails, earlier results are kept and everything created is removed.
fn measure(args: &Args, report: &mut Report) -> Result<()> {
    stop::catch()?;
    if args.wants(Part::Cost) {
        let (counts, samples): (&[usize], _) = if args.quick { (&[300, 1300], 5) } else { (&[300, 1300, 10_000], 20) };
        for &processes in counts {
            report.costs.extend(cost::measure(processes, samples)?);
        }
    }
    let wanted = args.load.as_deref().unwrap_or_default();
    let loads = || loads::KINDS.iter().filter(|kind| kind.name.contains(wanted));
    if args.wants(Part::Slowdown) {
        let program = args.whyslow()?;
        let plan = slowdown::Plan::new(args.quick, args.pairs);
        for kind in loads() {
            report.slowdowns.extend(slowdown::measure(kind, &program, &plan)?);
        }
    }
    if args.wants(Part::Probes) {
        for kind in loads() {
            report.probes.extend(probes::measure(kind, if args.quick { 1 } else { 3 })?);
        }
    }
    if args.wants(Part::Observers) {
        report.observers = observers::measure(&args.whyslow()?, if args.quick { 4 } else { 15 })?;
    }
    Ok(())
}
