//! From sections to rounds: which jobs run together, on which targets, with which loads.

use super::JobFile;
use super::section::Section;
use crate::error::{Error, Result};
use crate::round::Party;
use crate::session::Session;
use crate::target::Ask;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use whyslow_model::bench::{Access, Block, Cache, Engine, Workload};

/// What fio tells unless `percentile_list` says otherwise.
const PERCENTILES: [f64; 17] =
    [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999];
const BLOCK: u32 = 4096;

/// The rounds of a file: `stonewall` begins a new one.
pub(super) struct Plan {
    rounds: Vec<Vec<Party>>,
}

impl Plan {
    /// Opens every target, fills those that are made for it, and says what runs when.
    pub(super) fn make(sections: &[Section], file: &JobFile, session: &mut Session) -> Result<Self> {
        let mut maker = Maker { file, session, shared: BTreeMap::new(), fills: BTreeMap::new() };
        let mut rounds: Vec<Vec<Party>> = Vec::new();
        for section in sections {
            let parties = maker.parties(section)?;
            match rounds.last_mut().filter(|_| !section.options.stonewall) {
                Some(round) => round.extend(parties),
                None => rounds.push(parties),
            }
        }
        // Nothing is written before it is known that all of it fits.
        rounds.iter().try_for_each(|parties| maker.session.check_memory(parties))?;
        maker.fill()?;
        Ok(Self { rounds })
    }

    pub(super) fn play(&self, session: &mut Session) -> Result<()> {
        for parties in &self.rounds {
            let mut names: Vec<&str> = parties.iter().map(|party| party.name.as_str()).collect();
            names.dedup();
            let name = names.join(", ");
            session.play(&name, &name, parties)?;
        }
        Ok(())
    }
}

struct Maker<'m, 'w> {
    file: &'m JobFile,
    session: &'m mut Session<'w>,
    /// Targets that were named, by path: jobs that name the same share it.
    shared: BTreeMap<PathBuf, usize>,
    /// Targets to be filled before anything runs, each with the load of the first that reads it.
    fills: BTreeMap<usize, Workload>,
}

impl Maker<'_, '_> {
    /// A section's loads: one where its jobs are told of as a group, else one for each job.
    fn parties(&mut self, section: &Section) -> Result<Vec<Party>> {
        let options = &section.options;
        if options.read_only && options.writes {
            return Err(self.wrong(section, "it writes, though readonly is set"));
        }
        let targets: Vec<usize> = match &options.filename {
            Some(name) => vec![self.named(section, name)?],
            None => (0..options.jobs).map(|_| self.scratch(section, None)).collect::<Result<_>>()?,
        };
        let load = self.load(section, targets[0])?;
        if load.poll {
            for &target in &targets {
                if u64::from(load.largest_block()) > self.session.polled(target)? {
                    return Err(
                        self.wrong(section, "with hipri a block is no larger than max_sectors_kb of the device")
                    );
                }
            }
        }
        let files: Vec<Arc<File>> = targets.iter().map(|&at| self.session.targets[at].file.clone()).collect();
        if options.reads || options.overwrite {
            for &target in targets.iter().filter(|&&at| self.session.targets[at].scratch) {
                self.fills.entry(target).or_insert_with(|| load.clone());
            }
        }
        let delay = options.delay;
        let party = |target, load, files| Party { name: section.name.clone(), target, load, files, delay };
        if options.group {
            return Ok(vec![party(targets[0], load, files)]);
        }
        let alone = |job: u32| {
            let at = job as usize % targets.len();
            let load = Workload { jobs: 1, seed: load.seed.wrapping_add(u64::from(job) << 32), ..load.clone() };
            party(targets[at], load, vec![files[at].clone()])
        };
        Ok((0..options.jobs).map(alone).collect())
    }

    fn fill(&mut self) -> Result<()> {
        std::mem::take(&mut self.fills).iter().try_for_each(|(&target, load)| {
            self.session.fill(target, load)?;
            self.session.targets[target].scratch = false;
            Ok(())
        })
    }

    /// The target that a section names.
    fn named(&mut self, section: &Section, name: &str) -> Result<usize> {
        let path = section.options.directory.as_ref().map_or_else(PathBuf::new, PathBuf::from).join(name);
        if let Some(&target) = self.shared.get(&path) {
            return Ok(target);
        }
        let target = if path.exists() { self.open(section, &path, 0)? } else { self.scratch(section, path.parent())? };
        self.shared.insert(path, target);
        Ok(target)
    }

    /// A file that is made for it, in the folder its own would be in.
    fn scratch(&mut self, section: &Section, folder: Option<&Path>) -> Result<usize> {
        let options = &section.options;
        let folder =
            folder.or(options.directory.as_deref().map(Path::new)).filter(|folder| !folder.as_os_str().is_empty());
        let size = options.file_size.or(options.size);
        let size = size.ok_or_else(|| self.wrong(section, "there is no size, and no file that has one"))?;
        let bytes = size.of(0) + options.offset.map_or(0, |offset| offset.of(0));
        if bytes == 0 {
            return Err(self.wrong(section, "a share of a file that is yet to be made is no size"));
        }
        self.open(section, folder.unwrap_or(Path::new(".")), bytes)
    }

    fn open(&mut self, section: &Section, path: &Path, size: u64) -> Result<usize> {
        let is_device = !path.is_dir() && !path.is_file();
        let ask = Ask {
            path: path.to_owned(),
            write: section.options.writes && !path.is_dir(),
            direct: section.options.direct,
            destroy: self.file.destroy.clone().filter(|_| section.options.writes && is_device),
            in_use: self.file.in_use && !section.options.writes,
            size,
        };
        self.session.open(&ask)
    }

    fn load(&self, section: &Section, target: usize) -> Result<Workload> {
        let options = &section.options;
        let target = &self.session.targets[target];
        let engine = options.engine.unwrap_or(Engine::Psync);
        let blocks = |at: usize| options.blocks[at].clone().unwrap_or(vec![Block { bytes: BLOCK, share: 1.0 }]);
        let (read_blocks, write_blocks) = (blocks(0), blocks(1));
        let whole = target.about.bytes;
        let start = options.offset.map_or(0, |offset| offset.of(whole)).min(whole);
        let size = options.size.map_or(whole - start, |size| size.of(whole)).min(whole - start);
        let once = options.io_size.map_or(size, |size| size.of(whole));
        let load = Workload {
            engine,
            poll: options.poll,
            direct: options.direct,
            cache: if options.invalidate && !options.direct { Cache::Cold } else { Cache::AsIs },
            access: access(section),
            reads: match (options.reads, options.writes) {
                (true, true) => options.read_share,
                (reads, _) => f64::from(u8::from(reads)),
            },
            rewrite: false,
            read_blocks,
            write_blocks,
            split: false,
            // Only io_uring has more than one in flight.
            depth: if engine == Engine::IoUring { options.depth.unwrap_or(1) } else { 1 },
            jobs: options.jobs,
            start,
            size,
            sync: options.sync,
            rate: None,
            pause: options.pause,
            cpus: options.cpus.clone(),
            verify: options.verify,
            seconds: options.seconds,
            bytes: (!options.time_based).then(|| once.saturating_mul(options.loops)),
            ramp_seconds: options.ramp,
            seed: options.seed.unwrap_or_else(|| if options.same_seed { 1 } else { time_of_day() }),
            percentiles: options.percentiles.clone().unwrap_or_else(|| PERCENTILES.to_vec()),
        };
        let load = Workload { rate: self.rate(section, &load)?, ..load };
        self.check(section, &load, target.grain)?;
        Ok(load)
    }

    /// Requests a second over all jobs; fio counts for each job.
    fn rate(&self, section: &Section, load: &Workload) -> Result<Option<f64>> {
        let options = &section.options;
        let each = match (options.rate, options.rate_iops) {
            (None, None) => return Ok(None),
            (_, Some(rate)) => rate as f64,
            (Some(bytes), None) if load.largest_block() == load.smallest_block() => {
                bytes as f64 / f64::from(load.largest_block())
            }
            _ => return Err(self.wrong(section, "rate with blocks of several sizes is not known: rate_iops is")),
        };
        if options.reads && options.writes {
            return Err(self.wrong(section, "a rate of reads and writes together is not known"));
        }
        if each <= 0.0 {
            return Err(self.wrong(section, "a rate of nothing"));
        }
        let jobs = if options.group { options.jobs } else { 1 };
        Ok(Some(each * f64::from(jobs)))
    }

    fn check(&self, section: &Section, load: &Workload, grain: u64) -> Result<()> {
        let blocks = load.read_blocks.iter().chain(&load.write_blocks);
        if let Some(block) = blocks.clone().find(|block| !u64::from(block.bytes).is_multiple_of(grain)) {
            let why = format!("with direct=1 a block is a multiple of {grain} bytes; {} is not", block.bytes);
            return Err(self.wrong(section, &why));
        }
        if !load.start.is_multiple_of(grain) {
            return Err(self.wrong(section, &format!("with direct=1 the offset is a multiple of {grain} bytes")));
        }
        if load.size < u64::from(load.largest_block()) {
            return Err(self.wrong(section, "the size is less than a block"));
        }
        if section.options.time_based && load.seconds.is_none() {
            return Err(self.wrong(section, "time_based wants a runtime"));
        }
        if load.poll && (load.engine != Engine::IoUring || !load.direct || load.sync.is_some()) {
            return Err(self.wrong(section, "hipri is for ioengine=io_uring with direct=1, and without syncs"));
        }
        if load.engine == Engine::Mmap && load.direct {
            return Err(self.wrong(section, "mmap goes by way of the page cache: direct=1 cannot be"));
        }
        Ok(())
    }

    fn wrong(&self, section: &Section, why: &str) -> Error {
        Error::new(format!("{}:{}: [{}]: {why}", self.file.path.display(), section.line, section.name))
    }
}

fn access(section: &Section) -> Access {
    let options = &section.options;
    match (options.random, options.distribution) {
        (false, _) if options.gap == 0 => Access::Sequential,
        (false, _) => Access::Strided(options.gap),
        (true, Some(distribution)) => distribution,
        (true, None) if options.with_repeats => Access::Uniform,
        (true, None) => Access::Shuffled,
    }
}

fn time_of_day() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64)
}
