//! Simulated fleets: measures how accurately `whyslow-fleet why` names planted causes, how stores grow with the number
//! of hosts, and whether killing a server loses a row.

mod bound_program;
mod causes;
mod charts;
mod demo;
mod engines;
mod fleet_program;
mod gateway;
mod growth;
mod hostile;
mod recorded;
mod shippers;
mod simulate;
mod store;

use causes::Causes;
use clap::{Args, Parser, Subcommand};
use demo::Demo;
use engines::Engines;
use fleet_program::FleetProgram;
use growth::{Growth, last_hours};
use recorded::RecordedMinutes;
use shippers::Trial;
use simulate::{Cause, simulate};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use store::{Layout, StoreWriter};
use tempfile::TempDir;
use whyslow_pairs::child;
use whyslow_pairs::failure::{Failure, Result};
use whyslow_pairs::program::beside;
use whyslow_pairs::stop;

/// Simulates fleets, and measures what whyslow-fleet makes of them.
#[derive(Parser)]
#[command(name = "bench-fleet", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Write JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Count in how many fleets the planted cause is named, and in how many without one a false cause
    Causes(CausesArgs),
    /// Write stores of several sizes, and measure what they cost and how fast they are asked
    Growth(GrowthArgs),
    /// Let hosts ship to an S3 server that is killed again and again, and count what is lost or doubled
    Shippers(ShippersArgs),
    /// Write a store
    Store(StoreArgs),
    /// Ask the embedded engine and Trino the same, and compare what they answer
    Engines(EnginesArgs),
    /// Show a fleet: a store, simulated hosts that keep shipping, the compactor, and the page, until Ctrl-C
    Demo(DemoArgs),
}

#[derive(Args)]
struct CausesArgs {
    /// How many fleets with a planted cause, and as many without
    #[arg(long, default_value = "40", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    fleets: u64,
    /// Hosts of each fleet
    #[arg(long, default_value = "300", value_parser = clap::value_parser!(u32).range(40..=100_000))]
    hosts: u32,
    /// The seed of the first fleet
    #[arg(long, default_value = "1")]
    seed: u64,
}

#[derive(Args)]
struct GrowthArgs {
    #[command(flatten)]
    given: Given,
    /// How many hosts
    #[arg(long, value_name = "HOSTS", value_delimiter = ',', default_value = "100,1000,10000")]
    sizes: Vec<usize>,
    /// Up to how many hosts files are also measured as hosts ship them
    #[arg(long, value_name = "HOSTS", default_value = "1000")]
    shipped: usize,
    /// Hours of each store
    #[arg(long, default_value = "24", value_parser = clap::value_parser!(u32).range(1..=168))]
    hours: u32,
    /// How often `sick` is asked
    #[arg(long, default_value = "20")]
    runs: usize,
    /// What makes hosts sick
    #[arg(long, value_enum, default_value = "kernel")]
    cause: Cause,
    /// The seed of the fleets
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Write the pictures bytes.svg, files.svg and time.svg to this folder
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

#[derive(Args)]
struct ShippersArgs {
    #[command(flatten)]
    given: Given,
    /// How many hosts
    #[arg(long, default_value = "50", value_parser = clap::value_parser!(u16).range(1..=1000))]
    hosts: u16,
    /// Hours that each records, one a minute
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u32).range(1..=100))]
    hours: u32,
    /// How often the server is killed
    #[arg(long, default_value = "40")]
    kills: u32,
    /// The seed of the times at which it is
    #[arg(long, default_value = "1")]
    seed: u64,
    /// The server: go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
    #[arg(long, value_name = "PATH", default_value = "versitygw")]
    versitygw: PathBuf,
}

#[derive(Args)]
struct StoreArgs {
    /// A folder that does not exist yet
    store: PathBuf,
    #[command(flatten)]
    given: Given,
    /// How many hosts
    #[arg(long, default_value = "300")]
    hosts: usize,
    /// How many hours, until now
    #[arg(long, default_value = "24", value_parser = clap::value_parser!(u32).range(1..=168))]
    hours: u32,
    /// What makes hosts sick
    #[arg(long, value_enum, default_value = "kernel")]
    cause: Cause,
    /// The seed of the fleet
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Strange names, absurd numbers and broken files, as hosts ship them and whyslow-fleet compacts them
    #[arg(long)]
    hostile: bool,
}

#[derive(Args)]
struct EnginesArgs {
    /// The store, which is compacted: a folder or s3://BUCKET/PREFIX
    #[arg(long)]
    store: OsString,
    /// The same on Trino: trino://HOST:PORT/CATALOG/SCHEMA
    #[arg(long, value_name = "URL")]
    engine: String,
    /// How many hours, until now
    #[arg(long, default_value = "24", value_parser = clap::value_parser!(u32).range(1..=168))]
    hours: u32,
    /// How often each question is asked
    #[arg(long, default_value = "1")]
    runs: usize,
    /// The whyslow-fleet program; the one beside this program where it is not given
    #[arg(long, value_name = "PATH")]
    whyslow_fleet: Option<PathBuf>,
}

#[derive(Args)]
struct DemoArgs {
    #[command(flatten)]
    given: Given,
    /// How many hosts
    #[arg(long, default_value = "20", value_parser = clap::value_parser!(u16).range(10..=1000))]
    hosts: u16,
    /// Hours of the past that are there at the beginning
    #[arg(long, default_value = "6", value_parser = clap::value_parser!(u32).range(1..=48))]
    hours: u32,
    /// Seconds from one delivery to the next
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// End after so many seconds [default: at Ctrl-C]
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Address of the page
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9791")]
    listen: String,
    /// An S3 gateway, which makes the store a bucket [default: the store is a folder]
    #[arg(long, value_name = "PATH")]
    versitygw: Option<PathBuf>,
}

/// What several need.
#[derive(Args)]
struct Given {
    /// A recording of some minutes: what hosts do [default: record this machine for some minutes]
    #[arg(long, value_name = "DIR")]
    recording: Option<PathBuf>,
    /// Where files are made, and left [default: a temporary folder]
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// The whyslow program; the one beside this program where it is not given
    #[arg(long, value_name = "PATH")]
    whyslow: Option<PathBuf>,
    /// The whyslow-fleet program; the one beside this program where it is not given
    #[arg(long, value_name = "PATH")]
    whyslow_fleet: Option<PathBuf>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let holds = match &cli.command {
        Command::Causes(args) => causes(args, cli.json),
        Command::Growth(args) => growth(args, cli.json),
        Command::Shippers(args) => shippers(args, cli.json),
        Command::Store(args) => store(args, cli.json),
        Command::Engines(args) => engines(args, cli.json),
        Command::Demo(args) => demo(args),
    };
    match holds {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("bench-fleet: {failure}");
            ExitCode::from(2)
        }
    }
}

fn print<T: serde::Serialize + std::fmt::Display>(result: &T, json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string(result)?);
    } else {
        print!("{result}");
    }
    Ok(())
}

fn causes(args: &CausesArgs, json: bool) -> Result<bool> {
    let causes = Causes::measure(args.fleets, args.seed, args.hosts as usize);
    print(&causes, json)?;
    Ok(causes.holds())
}

fn growth(args: &GrowthArgs, json: bool) -> Result<bool> {
    stop::catch()?;
    let (own, whyslow_fleet) = (temporary()?, beside(args.given.whyslow_fleet.as_ref(), "whyslow-fleet")?);
    let recorded = RecordedMinutes::read(&args.given.recording(own.path())?)?;
    let growth = Growth {
        whyslow_fleet: &whyslow_fleet,
        folder: args.given.into.as_deref().unwrap_or(own.path()),
        recorded: &recorded,
        hours: args.hours,
        runs: args.runs,
        seed: args.seed,
        cause: args.cause,
    };
    let mut sizes = Vec::new();
    for hosts in &args.sizes {
        for layout in [Layout::Compacted, Layout::Shipped] {
            if layout == Layout::Compacted || *hosts <= args.shipped {
                sizes.push(growth.measure(*hosts, layout)?);
                print(&sizes[sizes.len() - 1], json)?;
            }
        }
    }
    if let Some(folder) = &args.svg {
        charts::write(&sizes, folder)?;
    }
    Ok(sizes.iter().all(growth::Size::is_right))
}

fn shippers(args: &ShippersArgs, json: bool) -> Result<bool> {
    stop::catch()?;
    let own = temporary()?;
    let given = &args.given;
    let trial = Trial {
        whyslow: &beside(given.whyslow.as_ref(), "whyslow")?,
        whyslow_fleet: &beside(given.whyslow_fleet.as_ref(), "whyslow-fleet")?,
        versitygw: &args.versitygw,
        recording: &given.recording(own.path())?,
        folder: given.into.as_deref().unwrap_or(own.path()),
        hosts: args.hosts.into(),
        hours: args.hours,
        kills: args.kills,
        seed: args.seed,
    };
    let outcome = trial.run()?;
    print(&outcome, json)?;
    Ok(outcome.is_right())
}

fn store(args: &StoreArgs, json: bool) -> Result<bool> {
    stop::catch()?;
    let own = temporary()?;
    let recorded = RecordedMinutes::read(&args.given.recording(own.path())?)?;
    let mut fleet = simulate(args.seed, args.hosts, Some(args.cause));
    if args.hostile {
        hostile::rename(&mut fleet);
    }
    if args.store.exists() {
        return Err(Failure::new(format!("{} exists already", args.store.display())));
    }
    let layout = if args.hostile { Layout::Shipped } else { Layout::Compacted };
    let (from_ms, _) = last_hours(args.hours);
    let (recorded, hours) = (&recorded, args.hours);
    let writer = StoreWriter { fleet: &fleet, recorded, folder: &args.store, from_ms, hours, layout };
    print(&writer.write()?, json)?;
    if args.hostile {
        writer.hours().into_iter().try_for_each(|hour| hostile::write(&args.store, hour))?;
        let path = beside(args.given.whyslow_fleet.as_ref(), "whyslow-fleet")?;
        let program = FleetProgram { path: &path, store: args.store.as_os_str(), engine: None, environment: &[] };
        if !program.command(&["compact"]).stdout(std::process::Stdio::null()).status()?.success() {
            return Err(Failure::new("the store cannot be compacted"));
        }
    }
    Ok(true)
}

fn engines(args: &EnginesArgs, json: bool) -> Result<bool> {
    stop::catch()?;
    let path = beside(args.whyslow_fleet.as_ref(), "whyslow-fleet")?;
    let asked = |engine| FleetProgram { path: &path, store: &args.store, engine, environment: &[] };
    let engines = Engines {
        embedded: asked(None),
        trino: asked(Some(&args.engine)),
        span: last_hours(args.hours),
        runs: args.runs,
    };
    let comparison = engines.compare()?;
    print(&comparison, json)?;
    Ok(comparison.holds())
}

fn demo(args: &DemoArgs) -> Result<bool> {
    stop::catch()?;
    let own = temporary()?;
    let given = &args.given;
    let demo = Demo {
        whyslow: &beside(given.whyslow.as_ref(), "whyslow")?,
        whyslow_fleet: &beside(given.whyslow_fleet.as_ref(), "whyslow-fleet")?,
        versitygw: args.versitygw.as_deref(),
        recording: given.recording.as_deref(),
        folder: given.into.as_deref().unwrap_or(own.path()),
        hosts: args.hosts.into(),
        hours: args.hours,
        every: Duration::from_secs(args.every),
        length: args.seconds.map(Duration::from_secs),
        listen: &args.listen,
    };
    demo.run().map(|()| true)
}

fn temporary() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("wsl-bench-").tempdir()?)
}

impl Given {
    /// Returns the given recording; by default, makes one of this machine in a folder.
    fn recording(&self, folder: &Path) -> Result<PathBuf> {
        if let Some(given) = &self.recording {
            return Ok(given.clone());
        }
        let whyslow = beside(self.whyslow.as_ref(), "whyslow")?;
        let (whyslow, folder) = (whyslow.to_string_lossy().into_owned(), folder.join("recording"));
        let path = folder.to_str().ok_or_else(|| Failure::new("a temporary folder whose name is not UTF-8"))?;
        child::output(&whyslow, &["record", "--for", "3m", "--dir", path], Duration::from_secs(240))?;
        Ok(folder)
    }
}
