//! `bench layers`: the same reads at every layer under a file, from the lowest device up to the warm page cache.
//!
//! Nothing is written. Devices are read where the file lies on them, as far as that can be known, so that one place of a disk
//! is not held against another.

pub(crate) mod extent;
mod largest;

use crate::cache::drop_cached;
use crate::error::{Error, Result};
use crate::round::Progress;
use crate::session::Session;
use crate::stop::Stop;
use crate::target::Ask;
use extent::Extent;
use std::fs::File;
use std::path::{Path, PathBuf};
use whyslow_model::bench::{Access, Cache, Kind, Layer, Report, Round, Workload};

/// What to peel, and how.
#[derive(Clone, Debug)]
pub struct Peel {
    /// A mount point, a folder, or a file.
    pub path: PathBuf,
    /// The time measured of each run, seconds.
    pub seconds: f64,
    /// What random numbers come of.
    pub seed: u64,
}

/// One kind of reads.
struct Reads {
    group: &'static str,
    access: Access,
    block: u32,
    depth: u32,
}

/// What each layer adds shows with one request at a time; what it takes, and where requests are cut, with large ones.
const READS: [Reads; 2] = [
    Reads { group: "random read of 4 KiB, one at a time", access: Access::Uniform, block: 4096, depth: 1 },
    Reads { group: "sequential read of 1 MiB, four at a time", access: Access::Sequential, block: 1 << 20, depth: 4 },
];
/// A smaller region is not worth reading: a device's own cache would hold it.
const LEAST: u64 = 4 << 20;
const RAMP: f64 = 0.1;

/// A layer and where its part of the file is.
struct Place {
    name: String,
    target: usize,
    start: u64,
    size: u64,
    direct: bool,
    cache: Cache,
}

/// Peels. Ended before its time by `stop`, it reports what it has.
///
/// # Errors
/// Where there is no file that is large enough, or it may not be read.
pub fn peel(asked: &Peel, stop: &Stop, watch: &mut dyn FnMut(Progress)) -> Result<Report> {
    let file = largest::file(&asked.path, LEAST)?;
    let mut session = Session::begin(stop, watch);
    let places = places(&mut session, &file)?;
    for reads in &READS {
        for place in &places {
            warm_up(&session, place)?;
            let party = session.party(&place.name, place.target, load(reads, place, asked));
            let name = format!("{} at {}", reads.group, place.name);
            session.play(reads.group, &name, &[party])?;
        }
    }
    let groups = session.rounds.chunk_by(|a, b| a.group == b.group);
    let layers = groups.flat_map(|rounds| layers(rounds, |device| session.map.directly_below(device))).collect();
    Ok(Report { layers, ..session.finish(Kind::Layers, Vec::new()) })
}

/// Every layer from the lowest up.
fn places(session: &mut Session, file: &Path) -> Result<Vec<Place>> {
    let direct = session.open(&ask(file.to_owned(), true))?;
    let buffered = session.open(&ask(file.to_owned(), false))?;
    let piece = piece(session, direct, file);
    let mut places = devices(session, direct, piece)?;
    let kind = session.targets[direct].about.file_system.clone().unwrap_or_else(|| "file system".into());
    let way = |how: &str, target, direct, cache| {
        let name = format!("{kind}, {how}");
        Place { name, target, start: piece.logical, size: piece.size, direct, cache }
    };
    places.push(way("direct", direct, true, Cache::AsIs));
    places.push(way("cache cold", buffered, false, Cache::Cold));
    places.push(way("cache warm", buffered, false, Cache::AsIs));
    Ok(places)
}

fn ask(path: PathBuf, direct: bool) -> Ask {
    Ask { path, write: false, direct, destroy: None, in_use: true, size: 0 }
}

/// File systems whose addresses are their own: where on which of their devices such a one lies, only they know
/// (Documentation/filesystems/btrfs.rst).
const OWN_ADDRESSES: [&str; 2] = ["btrfs", "bcachefs"];

/// The longest part of the file that lies in one piece; all of the file, where none is long enough.
fn piece(session: &mut Session, target: usize, file: &Path) -> Extent {
    let whole = session.targets[target].about.bytes / LEAST * LEAST;
    let kind = session.targets[target].about.file_system.as_deref().unwrap_or_default();
    let own_addresses = OWN_ADDRESSES.contains(&kind);
    let longest = extent::longest(&session.targets[target].file)
        .map(|extent| Extent { physical: extent.physical.filter(|_| !own_addresses), ..extent });
    let longest = longest
        .map(|extent| Extent { size: extent.size.min(whole - extent.logical.min(whole)) / LEAST * LEAST, ..extent });
    longest.filter(|extent| extent.size > 0).unwrap_or_else(|| {
        session
            .caveats
            .push(format!("{} lies in small pieces, or it is not told where: all of it is read", file.display()));
        Extent { logical: 0, physical: None, size: whole }
    })
}

/// The devices under a file, the lowest first, each read where the piece lies as far as that is known.
fn devices(session: &mut Session, target: usize, piece: Extent) -> Result<Vec<Place>> {
    let about = session.targets[target].about.clone();
    let (mut places, mut offset, mut above) = (Vec::new(), piece.physical, None::<String>);
    for device in about.device.iter().chain(&about.below) {
        if let Some(above) = above.replace(device.clone()) {
            offset = offset.and_then(|offset| below(session, &above, device, offset));
        }
        let target = match session.open(&ask(format!("/dev/{device}").into(), true)) {
            Ok(target) => target,
            // Without the privilege to read devices there is still the file system.
            Err(e) => {
                session.caveats.push(e.to_string());
                continue;
            }
        };
        if offset.is_none() {
            session
                .caveats
                .push(format!("{device} is read from its beginning: where on it the file lies is not known"));
        }
        let bytes = session.targets[target].about.bytes;
        let size = piece.size.min(bytes / LEAST * LEAST);
        let start = offset.unwrap_or(0).min(bytes.saturating_sub(size));
        places.push(Place { name: device.clone(), target, start, size, direct: true, cache: Cache::AsIs });
    }
    places.reverse();
    Ok(places)
}

/// Where an offset of a device is on the one below; none where only the driver between them knows.
fn below(session: &Session, upper: &str, lower: &str, offset: u64) -> Option<u64> {
    (session.map.relation(upper, lower) == Some("partition")).then(|| offset + session.map.start(upper))
}

/// Has all of the region in the page cache, where that is what is to be measured.
fn warm_up(session: &Session, place: &Place) -> Result<()> {
    if place.direct || place.cache != Cache::AsIs {
        return Ok(());
    }
    let file: &File = &session.targets[place.target].file;
    drop_cached(file).and_then(|()| read_all(file, place)).map_err(|e| Error::new(format!("{}: {e}", place.name)))
}

fn read_all(file: &File, place: &Place) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt;
    let mut buffer = vec![0; 1 << 20];
    let mut at = place.start;
    while at < place.start + place.size {
        match file.read_at(&mut buffer, at)? {
            0 => break,
            bytes => at += bytes as u64,
        }
    }
    Ok(())
}

fn load(reads: &Reads, place: &Place, asked: &Peel) -> Workload {
    // A cold cache is cold once: all of the region is read, one time at most.
    let cold = place.cache == Cache::Cold;
    Workload {
        direct: place.direct,
        cache: place.cache,
        access: reads.access,
        depth: reads.depth,
        start: place.start,
        size: place.size,
        seconds: Some(asked.seconds),
        bytes: cold.then_some(place.size),
        ramp_seconds: if cold { 0.0 } else { asked.seconds * RAMP },
        seed: asked.seed,
        ..Workload::of_blocks(reads.block)
    }
}

/// What each layer of a group adds to the one below, and takes of it. Where a device lies on several, that is the fastest of
/// them; what lies on no device that was read lies on the layer before it.
fn layers(rounds: &[Round], below: impl Fn(&str) -> Vec<String>) -> Vec<Layer> {
    let mut layers: Vec<Layer> = Vec::new();
    for round in rounds {
        let Some((run, flow)) = round.runs.first().and_then(|run| Some((run, run.read.as_ref()?))) else { continue };
        let lowest = round.ledgers.first().and_then(|ledger| ledger.layers.last());
        let request = lowest.filter(|lowest| lowest.traffic.reads > 0);
        let is_device = lowest.is_some_and(|_| round.ledgers[0].layers[0].device == run.name);
        let under: Vec<&Layer> = match below(&run.name) {
            devices if is_device => layers.iter().filter(|layer| devices.contains(&layer.name)).collect(),
            _ => layers.last().into_iter().collect(),
        };
        let latency = under.iter().map(|under| under.latency).min_by(f64::total_cmp);
        let bandwidth = under.iter().map(|under| under.bandwidth).max_by(f64::total_cmp);
        layers.push(Layer {
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
