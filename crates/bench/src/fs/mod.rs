//! `bench fs`: what a file system does for programs that use it as programs do, by way of the page cache.
//!
//! Streams through one file, many small files, writes that are made to last, and then several kinds of work at once: how much
//! each loses by the other.

mod small;

use crate::budget::Need;
use crate::contend::all_pairs;
use crate::error::{Error, Result};
use crate::round::{Party, Progress};
use crate::session::Session;
use crate::stop::Stop;
use crate::target::Ask;
use std::path::PathBuf;
use whyslow_model::bench::{Access, Cache, Engine, Kind, Pair, Report, Sync, Workload};

/// Where to work, and how much.
#[derive(Clone, Debug)]
pub struct FileSystem {
    /// A folder of it.
    pub folder: PathBuf,
    /// What to measure of it.
    pub parts: Vec<Part>,
    /// How large the file of the streams is, bytes.
    pub size: u64,
    /// How many small files.
    pub files: u32,
    /// The time measured of each run that does not end by itself, seconds.
    pub seconds: f64,
    /// What random orders come of.
    pub seed: u64,
}

/// What there is to measure of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Once through a large file, in every way there is.
    Streams,
    /// Small requests here and there, and such as are each made to last.
    Requests,
    /// Many small files.
    Files,
    /// Several kinds of work at once.
    Together,
}

/// What programs ask for at once when they stream.
const STREAM: u32 = 128 << 10;
/// What they ask for when they do not.
const SMALL: u32 = 4096;
/// Of so many blocks, a stride takes one.
const STRIDE: u64 = 8;
/// The part of the size that each of the files has on which several kinds of work are done at once.
const MIXED: u64 = 4;
/// How many kinds of work that are.
const KINDS: u64 = 3;

/// Runs all of it. Ended before its time by `stop`, it reports what it has.
///
/// # Errors
/// Where it is no folder, may not be written to, or has no room.
pub fn measure(asked: &FileSystem, stop: &Stop, watch: &mut dyn FnMut(Progress)) -> Result<Report> {
    if !asked.folder.is_dir() {
        return Err(Error::new(format!("{} is no folder: files are made in it and removed", asked.folder.display())));
    }
    let size = asked.size / u64::from(STREAM) * u64::from(STREAM);
    if size < MIXED * u64::from(STREAM) {
        return Err(Error::new("--size is too small to stream through: take at least 512K"));
    }
    let mut session = Session::begin(stop, watch);
    let wants = |part| asked.parts.contains(&part);
    session.check_room(&asked.folder, need(asked, size))?;
    if wants(Part::Streams) || wants(Part::Requests) {
        let target = session.open(&ask(asked, size))?;
        if wants(Part::Streams) {
            streams(&mut session, target, size)?;
        } else {
            session.fill(target, &usual(STREAM, size))?;
        }
        if wants(Part::Requests) {
            scattered(&mut session, target, asked, size)?;
        }
    }
    let files = match wants(Part::Files) {
        true => small::work(&asked.folder, asked.files, asked.seed, &mut session)?,
        false => Vec::new(),
    };
    let pairs = if wants(Part::Together) { at_once(&mut session, asked, size)? } else { Vec::new() };
    let mut report = session.finish(Kind::Fs, Vec::new());
    (report.files, report.pairs) = (files, pairs);
    Ok(report)
}

/// All that is written, part by part: what was made for one part is still there when the next begins.
fn need(asked: &FileSystem, size: u64) -> Need {
    let wants = |part| asked.parts.contains(&part);
    let streams = (wants(Part::Streams) || wants(Part::Requests)).then(|| Need::file(size));
    let small = wants(Part::Files).then(|| small::need(&asked.folder, asked.files));
    let mixed = wants(Part::Together).then(|| Need { bytes: KINDS * mixed(size), inodes: KINDS });
    [streams, small, mixed].into_iter().flatten().fold(Need::default(), Need::plus)
}

/// The size of each of the files on which several kinds of work are done at once.
fn mixed(size: u64) -> u64 {
    (size / MIXED / u64::from(STREAM) * u64::from(STREAM)).max(u64::from(STREAM))
}

fn ask(asked: &FileSystem, size: u64) -> Ask {
    Ask { path: asked.folder.clone(), write: true, direct: false, destroy: None, in_use: false, size }
}

/// One program that does one thing at a time with a file of this size.
fn usual(block: u32, size: u64) -> Workload {
    Workload { engine: Engine::Psync, direct: false, access: Access::Sequential, size, ..Workload::of_blocks(block) }
}

/// Once through the file, in every way there is.
fn streams(session: &mut Session, target: usize, size: u64) -> Result<()> {
    let once = Workload { bytes: Some(size), ..usual(STREAM, size) };
    let lasting = Some(Sync { every: None, data_only: false });
    let block = i64::from(STREAM);
    let cold = Workload { cache: Cache::Cold, ..once.clone() };
    let ways = [
        ("write", Workload { reads: 0.0, sync: lasting, ..once.clone() }),
        ("write again", Workload { reads: 0.0, sync: lasting, ..once.clone() }),
        // Of what was just written, as bonnie++ has it: what read-ahead has brought into the cache takes longer.
        (
            "rewrite, each block read first",
            Workload { reads: 0.5, rewrite: true, sync: lasting, bytes: Some(2 * size), ..once.clone() },
        ),
        ("read, cache cold", cold.clone()),
        ("read again, cache warm", once),
        ("read backward, cache cold", Workload { access: Access::Strided(-2 * block), ..cold.clone() }),
        (
            "read one of eight, cache cold",
            Workload {
                access: Access::Strided(block * (STRIDE as i64 - 1)),
                bytes: Some((size / STRIDE).max(u64::from(STREAM))),
                ..cold
            },
        ),
    ];
    for (name, load) in ways {
        let party = session.party(name, target, load);
        session.play("streams of 128 KiB", name, &[party])?;
    }
    Ok(())
}

/// Small requests here and there, and small ones that are each made to last.
fn scattered(session: &mut Session, target: usize, asked: &FileSystem, size: u64) -> Result<()> {
    let timed = Workload { seconds: Some(asked.seconds), seed: asked.seed, ..usual(SMALL, size) };
    let commit = |data_only| Workload { reads: 0.0, sync: Some(Sync { every: Some(1), data_only }), ..timed.clone() };
    let ways = [
        ("random read, cache cold", Workload { access: Access::Uniform, cache: Cache::Cold, ..timed.clone() }),
        ("random write", Workload { access: Access::Uniform, reads: 0.0, ..timed.clone() }),
        ("write and fdatasync each", commit(true)),
        ("write and fsync each", commit(false)),
    ];
    for (name, load) in ways {
        let party = session.party(name, target, load);
        session.play("requests of 4 KiB", name, &[party])?;
    }
    Ok(())
}

/// A stream, a database's reads and a log, each alone, then in pairs.
fn at_once(session: &mut Session, asked: &FileSystem, size: u64) -> Result<Vec<Pair>> {
    let size = mixed(size);
    let timed = |block| Workload { seconds: Some(asked.seconds), seed: asked.seed, ..usual(block, size) };
    let kinds = [
        ("a stream of writes", false, Workload { reads: 0.0, ..timed(STREAM) }),
        (
            "random reads, 4 at a time",
            true,
            Workload { engine: Engine::IoUring, access: Access::Uniform, direct: true, depth: 4, ..timed(SMALL) },
        ),
        (
            "a log of synced writes",
            false,
            Workload { reads: 0.0, sync: Some(Sync { every: Some(1), data_only: true }), ..timed(SMALL) },
        ),
    ];
    let mut parties: Vec<Party> = Vec::new();
    for (name, direct, load) in kinds {
        if session.stop.is_asked() {
            return Ok(Vec::new());
        }
        let target = match session.open(&Ask { direct, ..ask(asked, size) }) {
            // Not every file system can do without the page cache.
            Err(_) if direct => session.open(&ask(asked, size))?,
            opened => opened?,
        };
        let load = Workload { direct: session.targets[target].is_direct(), ..load };
        session.fill(target, &load)?;
        parties.push(session.party(name, target, load));
    }
    all_pairs(session, &parties)
}
