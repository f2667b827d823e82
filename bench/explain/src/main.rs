//! Measures speed and accuracy of `whyslow explain` for a day: builds a recording from a quiet machine's samples, with
//! faults that the lab made on the real kernel planted at known times.

mod capture;
mod explain;
mod judge;
mod page;

use capture::Capturer;
use clap::Parser;
use judge::{Planted, Report};
use page::PageReport;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};
use whyslow_bench_explain::{Clip, Player};
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::program::beside;
use whyslow_pairs::stop;

/// Plants faults in a long recording, and measures how `whyslow explain` finds them. Captures need root, and a time in which
/// nothing else runs.
#[derive(Parser)]
#[command(name = "bench-explain", version)]
struct Args {
    /// How long the recording is to be
    #[arg(long, default_value = "24", value_parser = clap::value_parser!(u64).range(1..=168))]
    hours: u64,
    /// The lab's faults to plant, in this order
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = capture::FAULTS)]
    faults: Vec<String>,
    /// Where captures are kept; those that are there are not made again [default: a folder that is deleted]
    #[arg(long, value_name = "DIR")]
    captures: Option<PathBuf>,
    /// Where the recording is made, and left; in memory, and deleted, where it is not given
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Explain what --into holds from an earlier run
    #[arg(long, requires = "into")]
    again: bool,
    /// Measure how fast the page of 'whyslow serve' has the recording, and how large a report of it is; without faults
    #[arg(long)]
    page: bool,
    /// The whyslow program; the one beside this program where it is not given
    #[arg(long, value_name = "PATH")]
    whyslow: Option<PathBuf>,
    /// The lab; the one beside this program where it is not given
    #[arg(long, value_name = "PATH")]
    lab: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    // The lab runs this program in place of whyslow.
    if let Some(status) = capture::in_whyslows_place() {
        return status;
    }
    let args = Args::parse();
    match measure(&args) {
        Ok(measured) => {
            let (json, text, holds) = match measured {
                Measured::Explained(report) => (report.json(), report.to_string(), report.holds()),
                Measured::Drawn(report) => (report.json(), report.to_string(), report.holds()),
            };
            if args.json {
                println!("{json}");
            } else {
                print!("{text}");
            }
            if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(failure) => {
            eprintln!("bench-explain: {failure}");
            ExitCode::from(2)
        }
    }
}

/// The two benchmarks.
enum Measured {
    Explained(Report),
    Drawn(PageReport),
}

fn measure(args: &Args) -> Result<Measured> {
    stop::catch()?;
    let whyslow = beside(args.whyslow.as_ref(), "whyslow")?;
    // Faults need the lab; a page can show any machine.
    let lab = if args.page { PathBuf::new() } else { beside(args.lab.as_ref(), "whyslow-lab")? };
    let names = if args.page { &[][..] } else { &args.faults[..] };
    let mut own = tempfile::Builder::new();
    own.prefix("wsl-bench-");
    let own = own.tempdir_in("/dev/shm").or_else(|_| own.tempdir())?;
    let captures = args.captures.clone().unwrap_or_else(|| own.path().join("captures"));
    let into = args.into.clone().unwrap_or_else(|| own.path().join("recording"));
    let capturer = Capturer { whyslow: whyslow.clone(), lab, into: captures };
    if args.page && args.again {
        return page::measure(&whyslow, &into).map(Measured::Drawn);
    }
    let quiet = read(&capturer.quiet()?)?;
    let faults =
        names.iter().map(|name| Ok((name.as_str(), read(&capturer.fault(name)?)?))).collect::<Result<Vec<_>>>()?;
    let plan = Plan::new(args.hours * 3600, &faults);
    if !args.again {
        plan.play(&quiet, &into)?;
    }
    if args.page {
        return page::measure(&whyslow, &into).map(Measured::Drawn);
    }
    let explained = explain::explain(&whyslow, &into)?;
    Report::new(plan.planted(), explained).map(Measured::Explained)
}

fn read(folder: &Path) -> Result<Clip> {
    Clip::read(folder).map_err(|e| Failure::new(e.to_string()))
}

/// Schedule of the clips.
struct Plan<'f> {
    seconds: u64,
    /// Start of each fault, in seconds from the start.
    faults: Vec<(u64, &'f str, &'f Clip)>,
}

impl<'f> Plan<'f> {
    /// Places each fault in a separate part of the time. Parts have equal lengths, and the position in the part
    /// rotates, so that a fault begins at no particular second of a window or segment.
    fn new(seconds: u64, faults: &'f [(&'f str, Clip)]) -> Self {
        let part = seconds / faults.len().max(1) as u64;
        let place = |n: u64| n * part + part / 4 + (n * 617) % (part / 2).max(1);
        let faults = faults.iter().zip(0..).map(|((name, clip), n)| (place(n), *name, clip)).collect();
        Self { seconds, faults }
    }

    /// Returns the wall-clock time of the start: the duration ago, rounded to the hour.
    fn start_ns(&self) -> i64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        let hour = (now / 3600 - self.seconds / 3600 - 1) * 3600;
        i64::try_from(hour * 1_000_000_000).unwrap_or(0)
    }

    fn play(&self, quiet: &Clip, into: &Path) -> Result<()> {
        let clips = self.faults.iter().map(|(.., clip)| *clip).chain([quiet]);
        let latest = clips.filter_map(|clip| clip.played().last()).map(|sample| sample.boot_ns).max().unwrap_or(0);
        let mut player =
            Player::begin(into, self.start_ns(), latest + 1_000_000_000).map_err(|e| Failure::new(e.to_string()))?;
        for (at, _, clip) in &self.faults {
            rest(&mut player, quiet, *at)?;
            player.play(clip);
        }
        rest(&mut player, quiet, self.seconds)?;
        player.finish().map(drop).map_err(Failure::new)
    }

    fn planted(&self) -> Vec<Planted> {
        let planted = |(at, name, clip): &(u64, &str, &Clip)| {
            // A kill is a moment: there is nothing to find before the first and after the last one.
            let kills = clip.kills().filter(|_| *name == "mem.oom_kill");
            let (first, last) = kills.unwrap_or((0, clip.played().len() - 1));
            // A sample describes the second before it.
            Planted { fault: (*name).to_owned(), start: at + first as u64 - 1, end: at + last as u64 }
        };
        self.faults.iter().map(planted).collect()
    }
}

/// Plays the quiet machine until this second.
fn rest(player: &mut Player, quiet: &Clip, until: u64) -> Result<()> {
    while player.seconds() < until {
        stop::pause(Duration::ZERO)?;
        let left = usize::try_from(until - player.seconds()).unwrap_or(usize::MAX);
        let whole = quiet.played().len();
        if left >= whole { player.play(quiet) } else { player.play(&quiet.part(0, left)) }
    }
    Ok(())
}
