//! `whyslow bench`.

mod file_system;
mod machine;
mod net;
mod overview;
mod save;

use crate::interrupt::Interrupt;
use crate::options::{OutputOptions, duration};
use crate::output::{self, Failure, print};
use crate::progress::Progress;
use clap::{Args, Subcommand, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};
use whyslow_bench::contend::{self, ContendOptions};
use whyslow_bench::disk::{self, DiskOptions};
use whyslow_bench::fio::{self, JobFile};
use whyslow_bench::layers::{self, LayersOptions};
use whyslow_bench::target::TargetSpec;
use whyslow_bench::{Error, Stop};
use whyslow_model::bench::{BenchReport, Cache, Engine};
use whyslow_show::{json, text};

/// What to benchmark, and whether to save the result.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Option<Bench>,
    #[command(flatten)]
    saving: save::Saving,
}

/// What to benchmark.
#[derive(Debug, Subcommand)]
enum Bench {
    /// Measure a disk: IOPS and throughput by queue depth and block size
    Disk(DiskArgs),
    /// Measure a file system: streams, small files, fsync, and how they interfere
    Fs(file_system::FsArgs),
    /// Read a file through every layer below it and show what each costs (read-only)
    Layers(LayersArgs),
    /// Read targets alone and in pairs and show which interfere with each other
    Contend(ContendArgs),
    /// Measure memory: bandwidth, latency by working set and page size, page-fault cost
    Memory(machine::MemoryArgs),
    /// Measure CPUs: scaling, hyperthreads, wake-up latency, context switches, system calls, clocks
    Cpu(machine::CpuArgs),
    /// Measure the network to another machine, on which `whyslow bench net serve` runs
    Net(Box<net::NetArgs>),
}

/// Options of `bench layers`.
#[derive(Debug, Args)]
pub struct LayersArgs {
    /// A mount point or folder, whose largest file is read, or a file
    path: PathBuf,
    /// Duration of each run
    #[arg(long = "for", value_name = "TIME", default_value = "1s", value_parser = duration)]
    time: Duration,
    /// Seed for random offsets
    #[arg(long, default_value = "1")]
    seed: u64,
}

/// Options of `bench contend`.
#[derive(Debug, Args)]
pub struct ContendArgs {
    /// Block devices and files to read; in a folder, a temporary file is created, read and removed
    #[arg(required = true, num_args = 2..)]
    targets: Vec<PathBuf>,
    /// Duration of each run
    #[arg(long = "for", value_name = "TIME", default_value = "1s", value_parser = duration)]
    time: Duration,
    /// Size of the temporary file created in a folder
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = bytes)]
    size: u64,
    /// Allow reading block devices that are in use: adds load, changes nothing
    #[arg(long)]
    in_use: bool,
    /// Seed for random offsets
    #[arg(long, default_value = "1")]
    seed: u64,
}

/// Options of `bench disk`.
#[derive(Debug, Args)]
pub struct DiskArgs {
    /// A block device or a file to read; or a folder, in which a temporary file is created, written, read and removed
    #[arg(required_unless_present = "job")]
    target: Option<PathBuf>,
    /// Run the jobs in this file (fio format) instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "time", "size", "cache", "engine", "poll", "seed"])]
    job: Option<PathBuf>,
    /// Write JSON in fio's format
    #[arg(long, requires = "job", conflicts_with = "json")]
    json_fio: bool,
    /// Duration of each run
    #[arg(long = "for", value_name = "TIME", default_value = "1s", value_parser = duration)]
    time: Duration,
    /// Size of the temporary file created in a folder
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = bytes)]
    size: u64,
    /// Also measure writes to a block device. DESTROYS ALL DATA ON IT; takes its serial number as confirmation
    #[arg(long, value_name = "SERIAL")]
    destroy: Option<String>,
    /// Allow reading a block device that is in use: adds load, changes nothing
    #[arg(long, conflicts_with = "destroy")]
    in_use: bool,
    /// Page cache: bypassed (none), used as it is (warm), the target dropped from it before each run (cold), or limited to a
    /// size by a memory cgroup (256M; small is 64M)
    #[arg(long, value_name = "none|warm|cold|small|SIZE", default_value = "none", value_parser = cache)]
    cache: PageCache,
    /// I/O engine
    #[arg(long, value_name = "ENGINE", default_value = "io_uring")]
    engine: EngineName,
    /// Poll for completions instead of waiting for interrupts, if the driver supports it
    #[arg(long)]
    poll: bool,
    /// Seed for random offsets
    #[arg(long, default_value = "1")]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum EngineName {
    // No doc comments here: clap would draw each as a paragraph of the help.
    #[value(name = "io_uring")]
    IoUring,
    Psync,
    Mmap,
}

impl EngineName {
    fn engine(self) -> Engine {
        match self {
            Self::IoUring => Engine::IoUring,
            Self::Psync => Engine::Psync,
            Self::Mmap => Engine::Mmap,
        }
    }
}

/// `None` bypasses the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageCache(Option<Cache>);

/// Runs a benchmark and prints its report.
pub fn run(args: &BenchArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    let Some(what) = &args.what else {
        overview::show(look)?;
        return Ok(ExitCode::SUCCESS);
    };
    args.saving.check()?;
    let (report, as_fio) = match what {
        Bench::Disk(args) => (disk(args)?, args.json_fio),
        Bench::Fs(args) => (file_system::measure(args)?, false),
        Bench::Layers(args) => (layers(args)?, false),
        Bench::Contend(args) => (set_against(args)?, false),
        Bench::Memory(args) => (machine::measure_memory(args)?, false),
        Bench::Cpu(args) => (machine::measure_cpu(args)?, false),
        Bench::Net(net) => return net::run(net, &args.saving, look),
    };
    print(match look.json {
        _ if as_fio => json::fio(&report),
        true => json::pretty(&report),
        false => text::bench(&report, &output::style(look)),
    })?;
    args.saving.keep(&report)?;
    Ok(ExitCode::SUCCESS)
}

fn disk(args: &DiskArgs) -> Result<BenchReport, Failure> {
    match (&args.job, &args.target) {
        (Some(path), _) => {
            let file = JobFile { path: path.clone(), destroy: args.destroy.clone(), in_use: args.in_use };
            watched(|stop, watch| fio::run(&file, stop, watch))
        }
        (None, Some(target)) => sweep(args, target),
        (None, None) => Err(Failure::usage("specify a target, or a job file with --job")),
    }
}

fn layers(args: &LayersArgs) -> Result<BenchReport, Failure> {
    let asked = LayersOptions { path: args.path.clone(), seconds: seconds(args.time)?, seed: args.seed };
    watched(|stop, watch| layers::measure(&asked, stop, watch))
}

fn set_against(args: &ContendArgs) -> Result<BenchReport, Failure> {
    let asked = ContendOptions {
        paths: args.targets.clone(),
        size: args.size,
        in_use: args.in_use,
        seconds: seconds(args.time)?,
        seed: args.seed,
    };
    watched(|stop, watch| contend::measure(&asked, stop, watch))
}

/// The time of a run in seconds, if it is long enough.
fn seconds(time: Duration) -> Result<f64, Failure> {
    if time < Duration::from_millis(10) {
        return Err(Failure::usage("--for must be at least 10ms"));
    }
    Ok(time.as_secs_f64())
}

fn sweep(args: &DiskArgs, target: &Path) -> Result<BenchReport, Failure> {
    // mmap always uses the page cache.
    let cache = args.cache.0.or((args.engine == EngineName::Mmap).then_some(Cache::AsIs));
    let target = TargetSpec {
        path: target.to_owned(),
        write: args.destroy.is_some(),
        direct: cache.is_none(),
        destroy: args.destroy.clone(),
        in_use: args.in_use,
        size: args.size,
    };
    let asked = DiskOptions {
        target,
        engine: args.engine.engine(),
        poll: args.poll,
        cache: cache.unwrap_or(Cache::AsIs),
        seconds: seconds(args.time)?,
        seed: args.seed,
    };
    watched(|stop, watch| disk::measure(&asked, stop, watch))
}

/// Runs a benchmark with a progress line, until Ctrl-C.
fn watched(
    benchmark: impl FnOnce(&Stop, &mut dyn FnMut(whyslow_bench::Progress)) -> Result<BenchReport, Error>,
) -> Result<BenchReport, Failure> {
    let mut interrupt = Interrupt::listen().map_err(|e| Failure::usage(format!("cannot listen for Ctrl-C: {e}")))?;
    let stop = Stop::default();
    let asked = stop.clone();
    thread::spawn(move || {
        while !interrupt.ends_sleep_until(Instant::now() + Duration::from_secs(3600)) {}
        asked.ask();
    });
    let progress = Progress::new("measuring", "stop and report");
    let mut watch = |at: whyslow_bench::Progress| progress.say(&said(&at));
    benchmark(&stop, &mut watch).map_err(|e| Failure::usage(e.to_string()))
}

fn said(at: &whyslow_bench::Progress) -> String {
    let time = match at.whole {
        Some(whole) => format!("{:.0} s left", (whole - at.elapsed).max(0.0).ceil()),
        None => format!("{:.0} s so far", at.elapsed),
    };
    format!("{}, {time} (Ctrl-C: stop and report)", at.doing)
}

/// For `--cache small`: a sixteenth of the default file size.
const SMALL: u64 = 64 << 20;

/// `none`, `warm`, `cold`, `small`, or a size.
fn cache(text: &str) -> Result<PageCache, String> {
    Ok(PageCache(match text {
        "none" => None,
        "warm" => Some(Cache::AsIs),
        "cold" => Some(Cache::Cold),
        "small" => Some(Cache::Small(SMALL)),
        size => Some(Cache::Small(bytes(size).map_err(|_| "not none, warm, cold, small or a size such as 256M")?)),
    }))
}

/// `4096`, `4K`, `1M`, `2G`, `1T`: binary multiples.
fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "not a size such as 4096, 4K, 256M or 1G".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.to_ascii_lowercase().trim_end_matches("ib") {
        "" | "b" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).filter(|&bytes| bytes > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_binary() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("4k"), Ok(4096));
        assert_eq!(bytes("256MiB"), Ok(256 << 20));
        assert_eq!(bytes("1T"), Ok(1 << 40));
        for wrong in ["", "0", "K", "4X", "-1", "1.5G", "99999999999T", "4 K"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_page_cache_is_passed_by_or_not() {
        assert_eq!(cache("none"), Ok(PageCache(None)));
        assert_eq!(cache("cold"), Ok(PageCache(Some(Cache::Cold))));
        assert_eq!(cache("small"), cache("64M"));
        assert_eq!(cache("256M"), Ok(PageCache(Some(Cache::Small(256 << 20)))));
        assert!(cache("tepid").is_err());
    }
}
