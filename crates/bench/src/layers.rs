//! `bench layers`: runs the same reads at every layer below a file, from the lowest device up to the warm page cache.
//! Read-only.
//!
//! Devices are read at the file's own offset where it is known, so that fast and slow zones of a disk are not compared.

use crate::bench_session::BenchSession;
use crate::extents::{self, Extent};
use crate::page_cache::drop_cached;
use crate::target::TargetSpec;
use crate::{Error, Progress, Result, Stop};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use whyslow_documents::bench::{AccessPattern, BenchKind, BenchReport, Cache, LayerResult, Round, Workload};
use whyslow_model::human;

/// Options of `bench layers`.
#[derive(Clone, Debug)]
pub struct LayersOptions {
    /// Mount point, folder or file.
    pub path: PathBuf,
    /// Measured time of each run, seconds.
    pub seconds: f64,
    /// Seed of random offsets.
    pub seed: u64,
}

struct ReadPattern {
    group: &'static str,
    access: AccessPattern,
    block: u32,
    depth: u32,
}

/// Small reads at depth 1 show added latency; large ones show lost bandwidth and split requests.
const PATTERNS: [ReadPattern; 2] = [
    ReadPattern { group: "random read of 4 KiB, one at a time", access: AccessPattern::Uniform, block: 4096, depth: 1 },
    ReadPattern {
        group: "sequential read of 1 MiB, four at a time",
        access: AccessPattern::Sequential,
        block: 1 << 20,
        depth: 4,
    },
];
/// Minimum size of a region; the device's own cache would hold a smaller one.
const MIN_REGION: u64 = 4 << 20;
const RAMP: f64 = 0.1;
/// Limits of the search, as a file system may have millions of entries: stop after this many, or at a file this large.
const MAX_ENTRIES: usize = 200_000;
const LARGE_ENOUGH: u64 = 1 << 30;

/// A layer and the position of the file on it.
struct LayerTarget {
    name: String,
    target: usize,
    start: u64,
    size: u64,
    direct: bool,
    cache: Cache,
}

/// Runs the benchmark. If stopped early, reports the results so far.
///
/// # Errors
/// Fails if no file is large enough, or if it must not be read.
pub fn measure(options: &LayersOptions, stop: &Stop, progress: &mut dyn FnMut(Progress)) -> Result<BenchReport> {
    let file = find_large(&options.path, MIN_REGION)?;
    let mut session = BenchSession::begin(stop, progress);
    let targets = layer_targets(&mut session, &file)?;
    for pattern in &PATTERNS {
        for target in &targets {
            warm_up(&session, target)?;
            let spec = session.run_spec(&target.name, target.target, load(pattern, target, options));
            let name = format!("{} at {}", pattern.group, target.name);
            session.run_round(pattern.group, &name, &[spec])?;
        }
    }
    let groups = session.rounds.chunk_by(|a, b| a.group == b.group);
    let layers = groups.flat_map(|rounds| layers(rounds, |device| session.map.directly_below(device))).collect();
    Ok(BenchReport { layers, ..session.finish(BenchKind::Layers) })
}

/// Returns the file itself, or the largest one in a folder, on the same file system. Fails if it has less than `least`
/// bytes of data.
fn find_large(path: &Path, least: u64) -> Result<PathBuf> {
    let meta = fs::metadata(path).map_err(|e| Error::at(path, "cannot read its metadata", &e))?;
    let found = if meta.is_dir() {
        largest_in(path, meta.dev())
    } else {
        meta.is_file().then(|| (allocated(&meta), path.into()))
    };
    match found {
        Some((bytes, file)) if bytes >= least => Ok(file),
        _ => Err(Error::new(format!(
            "{}: found no file with {} of data to read: name one (nothing is written)",
            path.display(),
            human::bytes(least)
        ))),
    }
}

fn largest_in(folder: &Path, device: u64) -> Option<(u64, PathBuf)> {
    let mut folders = vec![folder.to_owned()];
    let (mut seen, mut largest): (usize, Option<(u64, PathBuf)>) = (0, None);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            seen += 1;
            // Does not follow symbolic links.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.dev() != device {
                continue;
            }
            if meta.is_dir() {
                folders.push(entry.path());
            } else if meta.is_file() && largest.as_ref().is_none_or(|(most, _)| allocated(&meta) > *most) {
                largest = Some((allocated(&meta), entry.path()));
            }
        }
        if seen > MAX_ENTRIES || largest.as_ref().is_some_and(|(bytes, _)| *bytes >= LARGE_ENOUGH) {
            break;
        }
    }
    largest
}

/// Returns the allocated bytes: reads of holes do not reach a device. st_blocks counts units of 512 bytes (stat(2)).
fn allocated(meta: &fs::Metadata) -> u64 {
    meta.len().min(meta.blocks() * 512)
}

fn layer_targets(session: &mut BenchSession, file: &Path) -> Result<Vec<LayerTarget>> {
    let direct = session.open(&spec(file.to_owned(), true))?;
    let buffered = session.open(&spec(file.to_owned(), false))?;
    let region = region(session, direct, file);
    let mut targets = devices(session, direct, region);
    let kind = session.targets[direct].about.file_system.clone().unwrap_or_else(|| "file system".into());
    let file_system = |how: &str, target, direct, cache| {
        let name = format!("{kind}, {how}");
        LayerTarget { name, target, start: region.logical, size: region.size, direct, cache }
    };
    targets.push(file_system("direct", direct, true, Cache::AsIs));
    targets.push(file_system("cache cold", buffered, false, Cache::Cold));
    targets.push(file_system("cache warm", buffered, false, Cache::AsIs));
    Ok(targets)
}

fn spec(path: PathBuf, direct: bool) -> TargetSpec {
    TargetSpec { path, write: false, direct, destroy: None, in_use: true, size: 0 }
}

/// File systems with an address space of their own over several devices (Documentation/filesystems/btrfs.rst).
const OWN_ADDRESSES: [&str; 2] = ["btrfs", "bcachefs"];

/// Returns the longest contiguous part of the file, or the whole file if no part is long enough.
fn region(session: &mut BenchSession, target: usize, file: &Path) -> Extent {
    let target = &session.targets[target];
    let whole = target.about.bytes / MIN_REGION * MIN_REGION;
    let own_addresses = OWN_ADDRESSES.contains(&target.about.file_system.as_deref().unwrap_or_default());
    let longest = extents::longest(&target.file).map(|extent| Extent {
        physical: extent.physical.filter(|_| !own_addresses),
        size: extent.size.min(whole - extent.logical.min(whole)) / MIN_REGION * MIN_REGION,
        ..extent
    });
    longest.filter(|extent| extent.size > 0).unwrap_or_else(|| {
        let why = "is fragmented, or its extents are unknown: all of it is read";
        session.caveats.push(format!("{} {why}", file.display()));
        Extent { logical: 0, physical: None, size: whole }
    })
}

/// Returns the devices below a file, the lowest first, each with the offset of the region on it, if known.
fn devices(session: &mut BenchSession, target: usize, region: Extent) -> Vec<LayerTarget> {
    let about = session.targets[target].about.clone();
    let (mut targets, mut offset, mut above) = (Vec::new(), region.physical, None::<String>);
    for device in about.device.iter().chain(&about.below) {
        if let Some(above) = above.replace(device.clone()) {
            offset = offset.and_then(|offset| offset_below(session, &above, device, offset));
        }
        let target = match session.open(&spec(format!("/dev/{device}").into(), true)) {
            Ok(target) => target,
            // Without permission to read devices, the file system can still be measured.
            Err(e) => {
                session.caveats.push(e.to_string());
                continue;
            }
        };
        if offset.is_none() {
            let why = "is read from its beginning: where the file lies on it is unknown";
            session.caveats.push(format!("{device} {why}"));
        }
        let bytes = session.targets[target].about.bytes;
        let size = region.size.min(bytes / MIN_REGION * MIN_REGION);
        let start = offset.unwrap_or(0).min(bytes.saturating_sub(size));
        targets.push(LayerTarget { name: device.clone(), target, start, size, direct: true, cache: Cache::AsIs });
    }
    targets.reverse();
    targets
}

/// Returns the same offset on the device below; known only for partitions.
fn offset_below(session: &BenchSession, upper: &str, lower: &str, offset: u64) -> Option<u64> {
    (session.map.relation(upper, lower) == Some("partition")).then(|| offset + session.map.start(upper))
}

/// Reads the region into the page cache, for the warm layer.
fn warm_up(session: &BenchSession, target: &LayerTarget) -> Result<()> {
    if target.direct || target.cache != Cache::AsIs {
        return Ok(());
    }
    let file: &File = &session.targets[target.target].file;
    drop_cached(file).and_then(|()| read_all(file, target)).map_err(|e| Error::new(format!("{}: {e}", target.name)))
}

fn read_all(file: &File, target: &LayerTarget) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut at = target.start;
    while at < target.start + target.size {
        match file.read_at(&mut buffer, at)? {
            0 => break,
            bytes => at += bytes as u64,
        }
    }
    Ok(())
}

fn load(pattern: &ReadPattern, target: &LayerTarget, options: &LayersOptions) -> Workload {
    // The cache is cold only once: read each block at most once.
    let cold = target.cache == Cache::Cold;
    Workload {
        direct: target.direct,
        cache: target.cache,
        access: pattern.access,
        depth: pattern.depth,
        start: target.start,
        size: target.size,
        seconds: Some(options.seconds),
        bytes: cold.then_some(target.size),
        ramp_seconds: if cold { 0.0 } else { options.seconds * RAMP },
        seed: options.seed,
        ..Workload::of_blocks(pattern.block)
    }
}

/// Compares each layer of a group with the one below: for a device, the fastest of those it lies on; otherwise the
/// previous layer.
fn layers(rounds: &[Round], below: impl Fn(&str) -> Vec<String>) -> Vec<LayerResult> {
    let mut layers: Vec<LayerResult> = Vec::new();
    for round in rounds {
        let Some((run, flow)) = round.runs.first().and_then(|run| Some((run, run.read.as_ref()?))) else { continue };
        let lowest = round.ledgers.first().and_then(|accounting| accounting.layers.last());
        let request = lowest.filter(|lowest| lowest.traffic.reads > 0);
        let is_device = lowest.is_some_and(|_| round.ledgers[0].layers[0].device == run.name);
        let under: Vec<&LayerResult> = match below(&run.name) {
            devices if is_device => layers.iter().filter(|layer| devices.contains(&layer.name)).collect(),
            _ => layers.last().into_iter().collect(),
        };
        let latency = under.iter().map(|under| under.latency).min_by(f64::total_cmp);
        let bandwidth = under.iter().map(|under| under.bandwidth).max_by(f64::total_cmp);
        layers.push(LayerResult {
            group: round.group.clone(),
            name: run.name.clone(),
            rate: flow.rate,
            bandwidth: flow.bandwidth,
            latency: flow.latency.mean,
            cost: run.cost.per_operation,
            request: request.map(|lowest| lowest.traffic.read_bytes as f64 / lowest.traffic.reads as f64),
            adds: latency.map(|latency| flow.latency.mean - latency),
            takes: bandwidth.filter(|&bandwidth| bandwidth > 0.0).map(|bandwidth| 1.0 - flow.bandwidth / bandwidth),
        });
    }
    layers
}
