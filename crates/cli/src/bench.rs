//! `whyslow bench`.

mod net;
mod overview;

use crate::baseline::Saving;
use crate::interrupt::Interrupt;
use crate::options::{OutputOptions, duration, one_of, size};
use crate::output::{Failure, ProgressLine, print, tell};
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use whyslow_bench::contend::{self, ContendOptions};
use whyslow_bench::cpu::{self, CpuOptions};
use whyslow_bench::disk::{self, DiskOptions, DiskPart};
use whyslow_bench::fio::{self, JobFile};
use whyslow_bench::fs::journal::{self, JournalOptions, JournaledFs};
use whyslow_bench::fs::{self, FsOptions, FsPart};
use whyslow_bench::layers::{self, LayersOptions};
use whyslow_bench::memory::{self, MemoryOptions};
use whyslow_bench::target::TargetSpec;
use whyslow_bench::{Error, Stop};
use whyslow_documents::bench::{BenchReport, Cache, Engine};
use whyslow_model::human;
use whyslow_show::{json, text};

/// What to benchmark, and whether to save the result.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Option<BenchCommand>,
    #[command(flatten)]
    saving: Saving,
}

/// What to benchmark.
#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Measure a disk: IOPS and throughput by queue depth, block size and number of readers
    Disk(DiskArgs),
    /// Measure a file system: streams, small files, fsync, and how they interfere
    Fs(FsArgs),
    /// Read a file through every layer below it and show what each costs (read-only)
    Layers(LayersArgs),
    /// Read targets alone and in pairs and show which interfere with each other
    Contend(ContendArgs),
    /// Measure memory: bandwidth, latency by working set and page size, page-fault cost
    Memory(MemoryArgs),
    /// Measure CPUs: scaling, hyperthreads, wake-up latency, context switches, system calls, clocks
    Cpu(CpuArgs),
    /// Drop the page cache, dentries and inodes of the whole machine, so that what is measured next begins cold; needs root
    DropCaches,
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
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
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
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "only", "time", "size", "cache", "engine", "poll", "seed"])]
    job: Option<PathBuf>,
    /// Write JSON in fio's format
    #[arg(long, requires = "job", conflicts_with = "json")]
    json_fio: bool,
    /// Parts to measure: the curve by queue depth, sequential reads by block size, by number of readers [default: all]
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = one_of(&DISK_PARTS))]
    only: Vec<DiskPart>,
    /// Duration of each run; sequential reads divide it among their ten passes
    #[arg(long = "for", value_name = "TIME", default_value = "1s", value_parser = duration)]
    time: Duration,
    /// Size of the temporary file created in a folder
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
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
    #[arg(long, value_name = "ENGINE", default_value = "io_uring", value_parser = one_of(&ENGINES))]
    engine: Engine,
    /// Poll for completions instead of waiting for interrupts, if the driver supports it
    #[arg(long)]
    poll: bool,
    /// Seed for random offsets
    #[arg(long, default_value = "1")]
    seed: u64,
}

const DISK_PARTS: [(&str, DiskPart); 3] =
    [("depth", DiskPart::Depth), ("blocks", DiskPart::Blocks), ("readers", DiskPart::Readers)];
const ENGINES: [(&str, Engine); 3] = [("io_uring", Engine::IoUring), ("psync", Engine::Psync), ("mmap", Engine::Mmap)];

/// Options of `bench fs`.
#[derive(Debug, Args)]
pub struct FsArgs {
    /// A folder, in which temporary files are created, written, read and removed; with --log-device, a block device
    target: PathBuf,
    /// Parts to measure [default: all]
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = one_of(&FS_PARTS))]
    only: Vec<FsPart>,
    /// Compare file systems with their log inside and on this block device: makes both on the target. DESTROYS ALL DATA ON
    /// BOTH DEVICES; needs --destroy for each
    #[arg(long, value_name = "DEV", requires = "destroy", conflicts_with_all = ["only", "time"])]
    log_device: Option<PathBuf>,
    /// With --log-device: the serial number of a device whose data is lost, as confirmation; once for each device
    #[arg(long, value_name = "SERIAL", requires = "log_device")]
    destroy: Vec<String>,
    /// With --log-device: the file systems to compare [default: those whose mkfs is installed]
    #[arg(long = "type", value_name = "TYPE", value_delimiter = ',', requires = "log_device", value_parser = one_of(&JOURNALED))]
    kinds: Vec<JournaledFs>,
    /// Duration of each timed run
    #[arg(long = "for", value_name = "TIME", default_value = "2s", value_parser = duration)]
    time: Duration,
    /// Size of the streamed file; choose more than the memory to measure storage and not the page cache
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    size: u64,
    /// Number of small files
    #[arg(long, value_name = "COUNT", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    files: u32,
    /// Seed for random orders
    #[arg(long, default_value = "1")]
    seed: u64,
}

const FS_PARTS: [(&str, FsPart); 4] = [
    ("streams", FsPart::Streams),
    ("requests", FsPart::Requests),
    ("files", FsPart::Files),
    ("together", FsPart::Together),
];

const JOURNALED: [(&str, JournaledFs); 2] = [("xfs", JournaledFs::Xfs), ("ext4", JournaledFs::Ext4)];

/// Options of `bench memory`.
#[derive(Debug, Args)]
pub struct MemoryArgs {
    /// Duration of each measurement
    #[arg(long = "for", value_name = "TIME", default_value = "100ms", value_parser = duration)]
    time: Duration,
    /// Largest working set [default: four times the caches, from 64M to 256M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
}

/// Options of `bench cpu`.
#[derive(Debug, Args)]
pub struct CpuArgs {
    /// Duration of each measurement; wake-ups take ten times as long
    #[arg(long = "for", value_name = "TIME", default_value = "100ms", value_parser = duration)]
    time: Duration,
}

/// Treatment of the page cache; `None` bypasses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PageCache(Option<Cache>);

/// Runs a benchmark and prints its report.
pub fn run(args: &BenchArgs, look: &OutputOptions) -> Result<ExitCode, Failure> {
    let Some(what) = &args.what else {
        overview::show(look)?;
        return Ok(ExitCode::SUCCESS);
    };
    args.saving.check()?;
    let report = match what {
        BenchCommand::DropCaches => {
            let progress = ProgressLine::empty();
            progress.say("writing dirty pages, then dropping the caches; cannot be interrupted …");
            let dropped = whyslow_bench::drop_caches().map_err(|e| Failure::usage(e.to_string()))?;
            drop(progress);
            tell(&dropped, look, text::dropped_caches)?;
            return Ok(ExitCode::SUCCESS);
        }
        BenchCommand::Disk(args) => disk(args)?,
        BenchCommand::Fs(args) => file_system(args)?,
        BenchCommand::Layers(args) => layers(args)?,
        BenchCommand::Contend(args) => set_against(args)?,
        BenchCommand::Memory(args) => memory(args)?,
        BenchCommand::Cpu(args) => cpu(args)?,
        BenchCommand::Net(args) => match net::run(args, look)? {
            Some(report) => report,
            None => return Ok(ExitCode::SUCCESS),
        },
    };
    match what {
        BenchCommand::Disk(DiskArgs { json_fio: true, .. }) => print(json::fio(&report))?,
        _ => tell(&report, look, text::bench)?,
    }
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

fn file_system(args: &FsArgs) -> Result<BenchReport, Failure> {
    if let Some(log) = &args.log_device {
        let asked = JournalOptions {
            data: args.target.clone(),
            log: log.clone(),
            destroy: args.destroy.clone(),
            kinds: args.kinds.clone(),
            size: args.size,
            files: args.files,
            seed: args.seed,
        };
        return watched(|stop, watch| journal::compare(&asked, stop, watch));
    }
    let asked = FsOptions {
        folder: args.target.clone(),
        parts: chosen(&args.only, &FS_PARTS),
        size: args.size,
        files: args.files,
        seconds: seconds(args.time)?,
        seed: args.seed,
    };
    watched(|stop, watch| fs::measure(&asked, stop, watch))
}

/// Returns the named parts, or all if none is named.
fn chosen<T: Copy>(only: &[T], all: &[(&str, T)]) -> Vec<T> {
    if only.is_empty() { all.iter().map(|(_, part)| *part).collect() } else { only.to_vec() }
}

fn memory(args: &MemoryArgs) -> Result<BenchReport, Failure> {
    let asked = MemoryOptions { most: args.size, seconds: seconds(args.time)? };
    watched(|stop, watch| memory::measure(&asked, stop, watch))
}

fn cpu(args: &CpuArgs) -> Result<BenchReport, Failure> {
    let asked = CpuOptions { seconds: seconds(args.time)? };
    watched(|stop, watch| cpu::measure(&asked, stop, watch))
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

/// Converts the duration of a run to seconds; fails if it is too short.
fn seconds(time: Duration) -> Result<f64, Failure> {
    if time < Duration::from_millis(10) {
        return Err(Failure::usage("--for must be at least 10ms"));
    }
    Ok(time.as_secs_f64())
}

fn sweep(args: &DiskArgs, target: &Path) -> Result<BenchReport, Failure> {
    // mmap always uses the page cache.
    let cache = args.cache.0.or((args.engine == Engine::Mmap).then_some(Cache::AsIs));
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
        parts: chosen(&args.only, &DISK_PARTS),
        engine: args.engine,
        poll: args.poll,
        cache: cache.unwrap_or(Cache::AsIs),
        seconds: seconds(args.time)?,
        seed: args.seed,
    };
    watched_for(Some(disk::longest(&asked)), |stop, watch| disk::measure(&asked, stop, watch))
}

/// Runs a benchmark with a progress line, until Ctrl-C.
fn watched(
    benchmark: impl FnOnce(&Stop, &mut dyn FnMut(whyslow_bench::Progress)) -> Result<BenchReport, Error>,
) -> Result<BenchReport, Failure> {
    watched_for(None, benchmark)
}

/// Runs a benchmark like [`watched`]; first prints its maximum duration in seconds, if that is known.
fn watched_for(
    longest: Option<f64>,
    benchmark: impl FnOnce(&Stop, &mut dyn FnMut(whyslow_bench::Progress)) -> Result<BenchReport, Error>,
) -> Result<BenchReport, Failure> {
    let interrupt = Interrupt::listen()?;
    let stop = Stop::from(interrupt.flag());
    let progress = ProgressLine::new("measuring", "stop and report");
    // A benchmark that is refused makes no progress.
    let mut longest = longest;
    let mut watch = |at: whyslow_bench::Progress| {
        if let Some(seconds) = longest.take() {
            eprintln!("This takes at most {}.", human::quantity(seconds.ceil(), "s"));
        }
        progress.say(&said(&at));
    };
    benchmark(&stop, &mut watch).map_err(|e| Failure::usage(e.to_string()))
}

fn said(at: &whyslow_bench::Progress) -> String {
    let time = match at.whole {
        Some(whole) => format!("{:.0} s left", (whole - at.elapsed).max(0.0).ceil()),
        None => format!("{:.0} s so far", at.elapsed),
    };
    format!("{}, {time} (Ctrl-C: stop and report)", at.doing)
}

/// Cache size for `--cache small`: a sixteenth of the default file size.
const SMALL: u64 = 64 << 20;

/// Parses `none`, `warm`, `cold`, `small`, or a size.
fn cache(text: &str) -> Result<PageCache, String> {
    Ok(PageCache(match text {
        "none" => None,
        "warm" => Some(Cache::AsIs),
        "cold" => Some(Cache::Cold),
        "small" => Some(Cache::Small(SMALL)),
        text => Some(Cache::Small(size(text).map_err(|_| "not none, warm, cold, small or a size such as 256M")?)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_cache_is_passed_by_or_not() {
        assert_eq!(cache("none"), Ok(PageCache(None)));
        assert_eq!(cache("cold"), Ok(PageCache(Some(Cache::Cold))));
        assert_eq!(cache("small"), cache("64M"));
        assert_eq!(cache("256M"), Ok(PageCache(Some(Cache::Small(256 << 20)))));
        assert!(cache("tepid").is_err());
    }
}
