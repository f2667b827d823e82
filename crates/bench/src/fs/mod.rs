//! `bench fs`: file system performance for ordinary programs, which use the page cache.

pub mod journal;
mod mount_point;
mod small_files;

use crate::bench_session::BenchSession;
use crate::budget::SpaceNeeded;
use crate::contend::all_pairs;
use crate::round::RunSpec;
use crate::target::TargetSpec;
use crate::{Error, Progress, Result, Stop};
use std::path::PathBuf;
use whyslow_documents::bench::{
    AccessPattern, BenchKind, BenchReport, Cache, Engine, Interference, SyncPolicy, Workload,
};

/// Options of `bench fs`.
#[derive(Clone, Debug)]
pub struct FsOptions {
    /// Folder on the file system.
    pub folder: PathBuf,
    /// Parts of the benchmark to run.
    pub parts: Vec<FsPart>,
    /// Size of the streamed file, bytes.
    pub size: u64,
    /// Number of small files.
    pub files: u32,
    /// Measured time of each timed run, seconds.
    pub seconds: f64,
    /// Seed of random orders.
    pub seed: u64,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FsPart {
    /// Large files, read and written in every order.
    Streams,
    /// Small random requests, and small synced ones.
    Requests,
    /// Many small files.
    Files,
    /// Several workloads at once.
    Together,
}

/// Block size of streams.
const STREAM: u32 = 128 << 10;
const SMALL: u32 = 4096;
/// A strided read reads one block out of this many.
const STRIDE: u64 = 8;
/// Workloads that run together have files of this fraction of the size.
const MIXED: u64 = 4;
const MIXED_WORKLOADS: u64 = 3;

/// Runs the benchmark. If stopped early, reports the results so far.
///
/// # Errors
/// Fails if the path is not a folder, is not writable, or lacks space.
pub fn measure(options: &FsOptions, stop: &Stop, progress: &mut dyn FnMut(Progress)) -> Result<BenchReport> {
    if !options.folder.is_dir() {
        let folder = options.folder.display();
        return Err(Error::new(format!("{folder} is not a folder: name one, temporary files are created in it")));
    }
    let size = options.size / u64::from(STREAM) * u64::from(STREAM);
    if size < MIXED * u64::from(STREAM) {
        return Err(Error::new("--size is too small to stream through: choose at least 512K"));
    }
    let mut session = BenchSession::begin(stop, progress);
    let wants = |part| options.parts.contains(&part);
    session.check_space(&options.folder, space_needed(options, size))?;
    if wants(FsPart::Streams) || wants(FsPart::Requests) {
        let target = session.open(&spec(options, size, false))?;
        if wants(FsPart::Streams) {
            streams(&mut session, target, size)?;
        } else {
            session.fill(target, &buffered(STREAM, size))?;
        }
        if wants(FsPart::Requests) {
            small_requests(&mut session, target, options, size)?;
        }
    }
    let files = match wants(FsPart::Files) {
        true => small_files::measure(&options.folder, options.files, options.seed, &mut session)?,
        false => Vec::new(),
    };
    let pairs = if wants(FsPart::Together) { together(&mut session, options, size)? } else { Vec::new() };
    Ok(BenchReport { files, pairs, ..session.finish(BenchKind::Fs) })
}

/// Returns the space for everything that is written: the files of one part still exist when the next begins.
fn space_needed(options: &FsOptions, size: u64) -> SpaceNeeded {
    let wants = |part| options.parts.contains(&part);
    let streams = (wants(FsPart::Streams) || wants(FsPart::Requests)).then(|| SpaceNeeded::file(size));
    let small = wants(FsPart::Files).then(|| small_files::space_needed(&options.folder, options.files));
    let bytes = MIXED_WORKLOADS * mixed_size(size);
    let mixed = wants(FsPart::Together).then_some(SpaceNeeded { bytes, inodes: MIXED_WORKLOADS });
    [streams, small, mixed].into_iter().flatten().fold(SpaceNeeded::default(), SpaceNeeded::plus)
}

fn mixed_size(size: u64) -> u64 {
    (size / MIXED / u64::from(STREAM) * u64::from(STREAM)).max(u64::from(STREAM))
}

fn spec(options: &FsOptions, size: u64, direct: bool) -> TargetSpec {
    TargetSpec { path: options.folder.clone(), write: true, direct, destroy: None, in_use: false, size }
}

/// Returns a sequential workload, one request at a time, through the page cache.
fn buffered(block: u32, size: u64) -> Workload {
    Workload {
        engine: Engine::Psync,
        direct: false,
        access: AccessPattern::Sequential,
        size,
        ..Workload::of_blocks(block)
    }
}

/// Streams once through the file, in every order.
fn streams(session: &mut BenchSession, target: usize, size: u64) -> Result<()> {
    let once = Workload { bytes: Some(size), ..buffered(STREAM, size) };
    let fsync = Some(SyncPolicy { every: None, data_only: false });
    let block = i64::from(STREAM);
    let cold = Workload { cache: Cache::Cold, ..once.clone() };
    let rewrite = Workload { reads: 0.5, rewrite: true, sync: fsync, bytes: Some(2 * size), ..once.clone() };
    let strided = Workload {
        access: AccessPattern::Strided(block * (STRIDE as i64 - 1)),
        bytes: Some((size / STRIDE).max(u64::from(STREAM))),
        ..cold.clone()
    };
    let loads = [
        ("write", Workload { reads: 0.0, sync: fsync, ..once.clone() }),
        ("write again", Workload { reads: 0.0, sync: fsync, ..once.clone() }),
        // Rewrite what was just written, as in bonnie++: after a cold read, readahead would be in the cache.
        ("rewrite, each block read first", rewrite),
        ("read, cache cold", cold.clone()),
        ("read again, cache warm", once),
        ("read backward, cache cold", Workload { access: AccessPattern::Strided(-2 * block), ..cold }),
        ("read one of eight, cache cold", strided),
    ];
    for (name, load) in loads {
        let spec = session.run_spec(name, target, load);
        session.run_round("streams of 128 KiB", name, &[spec])?;
    }
    Ok(())
}

/// Measures small random requests, and small synced ones.
fn small_requests(session: &mut BenchSession, target: usize, options: &FsOptions, size: u64) -> Result<()> {
    let timed = Workload { seconds: Some(options.seconds), seed: options.seed, ..buffered(SMALL, size) };
    let synced =
        |data_only| Workload { reads: 0.0, sync: Some(SyncPolicy { every: Some(1), data_only }), ..timed.clone() };
    let loads = [
        ("random read, cache cold", Workload { access: AccessPattern::Uniform, cache: Cache::Cold, ..timed.clone() }),
        ("random write", Workload { access: AccessPattern::Uniform, reads: 0.0, ..timed.clone() }),
        ("write and fdatasync each", synced(true)),
        ("write and fsync each", synced(false)),
    ];
    for (name, load) in loads {
        let spec = session.run_spec(name, target, load);
        session.run_round("requests of 4 KiB", name, &[spec])?;
    }
    Ok(())
}

/// Measures a stream, a database's reads and a log, each alone, then in pairs.
fn together(session: &mut BenchSession, options: &FsOptions, size: u64) -> Result<Vec<Interference>> {
    let size = mixed_size(size);
    let timed = |block| Workload { seconds: Some(options.seconds), seed: options.seed, ..buffered(block, size) };
    let log = Workload { reads: 0.0, sync: Some(SyncPolicy { every: Some(1), data_only: true }), ..timed(SMALL) };
    let reads =
        Workload { engine: Engine::IoUring, access: AccessPattern::Uniform, direct: true, depth: 4, ..timed(SMALL) };
    let loads = [
        ("a stream of writes", Workload { reads: 0.0, ..timed(STREAM) }),
        ("random reads, 4 at a time", reads),
        ("a log of synced writes", log),
    ];
    let mut specs: Vec<RunSpec> = Vec::new();
    for (name, load) in loads {
        if session.stop.is_asked() {
            return Ok(Vec::new());
        }
        let target = match session.open(&spec(options, size, load.direct)) {
            // Not every file system supports direct I/O.
            Err(_) if load.direct => session.open(&spec(options, size, false))?,
            opened => opened?,
        };
        let load = Workload { direct: session.targets[target].is_direct(), ..load };
        session.fill(target, &load)?;
        specs.push(session.run_spec(name, target, load));
    }
    all_pairs(session, &specs)
}
