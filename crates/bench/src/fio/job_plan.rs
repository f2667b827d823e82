//! Builds rounds from sections: which jobs run together, on which targets, with which workloads.

use super::JobFile;
use super::job_file::JobSection;
use crate::bench_session::BenchSession;
use crate::round::RunSpec;
use crate::target::TargetSpec;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use whyslow_documents::bench::{AccessPattern, BlockSize, Cache, Engine, Workload};

/// fio's default percentiles.
const PERCENTILES: [f64; 17] =
    [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9995, 0.9999];
const BLOCK: u32 = 4096;

/// Rounds of a file; `stonewall` begins a new one.
pub(super) struct JobPlan {
    rounds: Vec<Vec<RunSpec>>,
}

impl JobPlan {
    /// Opens all targets and fills temporary files.
    pub(super) fn new(sections: &[JobSection], file: &JobFile, session: &mut BenchSession) -> Result<Self> {
        let mut builder = PlanBuilder { file, session, shared: BTreeMap::new(), fills: BTreeMap::new() };
        let mut rounds: Vec<Vec<RunSpec>> = Vec::new();
        for section in sections {
            let specs = builder.run_specs(section)?;
            match rounds.last_mut().filter(|_| !section.options.stonewall) {
                Some(round) => round.extend(specs),
                None => rounds.push(specs),
            }
        }
        // Write nothing before everything is known to fit.
        rounds.iter().try_for_each(|specs| builder.session.check_memory(specs))?;
        builder.fill()?;
        Ok(Self { rounds })
    }

    pub(super) fn run(&self, session: &mut BenchSession) -> Result<()> {
        for specs in &self.rounds {
            let mut names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
            names.dedup();
            let name = names.join(", ");
            session.run_round(&name, &name, specs)?;
        }
        Ok(())
    }
}

struct PlanBuilder<'m, 'w> {
    file: &'m JobFile,
    session: &'m mut BenchSession<'w>,
    /// Named targets by path: jobs that name the same one share it.
    shared: BTreeMap<PathBuf, usize>,
    /// Targets to fill, each with the workload of the first job that reads it.
    fills: BTreeMap<usize, Workload>,
}

impl PlanBuilder<'_, '_> {
    /// Returns a section's workloads: one with `group_reporting`, else one per job.
    fn run_specs(&mut self, section: &JobSection) -> Result<Vec<RunSpec>> {
        let options = &section.options;
        if options.read_only && options.writes {
            return Err(self.error(section, "readonly", "the job writes: remove readonly, or change rw"));
        }
        let targets: Vec<usize> = match &options.filename {
            Some(name) => vec![self.named(section, name)?],
            None => (0..options.jobs).map(|_| self.temporary(section, None)).collect::<Result<_>>()?,
        };
        let load = self.load(section, targets[0])?;
        if load.poll {
            for &target in &targets {
                if u64::from(load.largest_block()) > self.session.largest_polled(target)? {
                    let why = "polled blocks must not exceed the device's queue/max_sectors_kb: reduce bs";
                    return Err(self.error(section, "hipri", why));
                }
            }
        }
        let files: Vec<Arc<File>> = targets.iter().map(|&at| self.session.targets[at].file.clone()).collect();
        if options.reads || options.overwrite {
            for &target in targets.iter().filter(|&&at| self.session.targets[at].temporary) {
                self.fills.entry(target).or_insert_with(|| load.clone());
            }
        }
        let delay = options.delay;
        let spec = |target, load, files| RunSpec { name: section.name.clone(), target, load, files, delay };
        if options.group {
            return Ok(vec![spec(targets[0], load, files)]);
        }
        let one_job = |job: u32| {
            let at = job as usize % targets.len();
            let load = Workload { jobs: 1, seed: load.seed.wrapping_add(u64::from(job) << 32), ..load.clone() };
            spec(targets[at], load, vec![files[at].clone()])
        };
        Ok((0..options.jobs).map(one_job).collect())
    }

    fn fill(&mut self) -> Result<()> {
        std::mem::take(&mut self.fills).iter().try_for_each(|(&target, load)| {
            self.session.fill(target, load)?;
            self.session.targets[target].temporary = false;
            Ok(())
        })
    }

    /// Opens the target named by `filename`: an existing file or device, or else a temporary file in its folder.
    fn named(&mut self, section: &JobSection, name: &str) -> Result<usize> {
        let path = section.options.directory.as_ref().map_or_else(PathBuf::new, PathBuf::from).join(name);
        if let Some(&target) = self.shared.get(&path) {
            return Ok(target);
        }
        let target =
            if path.exists() { self.open(section, &path, 0)? } else { self.temporary(section, path.parent())? };
        self.shared.insert(path, target);
        Ok(target)
    }

    fn temporary(&mut self, section: &JobSection, folder: Option<&Path>) -> Result<usize> {
        let options = &section.options;
        let folder =
            folder.or(options.directory.as_deref().map(Path::new)).filter(|folder| !folder.as_os_str().is_empty());
        let size = options.file_size.or(options.size);
        let size = size.ok_or_else(|| {
            self.error(section, "size", "is missing: set it, or name an existing file or device with filename")
        })?;
        let bytes = size.bytes_of(0) + options.offset.map_or(0, |offset| offset.bytes_of(0));
        if bytes == 0 {
            let why = "a percentage needs an existing file or device: set a size in bytes";
            return Err(self.error(section, "size", why));
        }
        self.open(section, folder.unwrap_or(Path::new(".")), bytes)
    }

    fn open(&mut self, section: &JobSection, path: &Path, size: u64) -> Result<usize> {
        let is_device = !path.is_dir() && !path.is_file();
        let spec = TargetSpec {
            path: path.to_owned(),
            write: section.options.writes && !path.is_dir(),
            direct: section.options.direct,
            destroy: self.file.destroy.clone().filter(|_| section.options.writes && is_device),
            in_use: self.file.in_use && !section.options.writes,
            size,
        };
        let target = self.session.open(&spec)?;
        self.session.add_in_use_caveat(target, &spec);
        Ok(target)
    }

    fn load(&self, section: &JobSection, target: usize) -> Result<Workload> {
        let options = &section.options;
        let target = &self.session.targets[target];
        let engine = options.engine.unwrap_or(Engine::Psync);
        let blocks = |at: usize| options.blocks[at].clone().unwrap_or(vec![BlockSize { bytes: BLOCK, share: 1.0 }]);
        let whole = target.about.bytes;
        let start = options.offset.map_or(0, |offset| offset.bytes_of(whole)).min(whole);
        let size = options.size.map_or(whole - start, |size| size.bytes_of(whole)).min(whole - start);
        let once = options.io_size.map_or(size, |size| size.bytes_of(whole));
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
            read_blocks: blocks(0),
            write_blocks: blocks(1),
            split: false,
            // The other engines have one request in flight.
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
            seed: options.seed.unwrap_or_else(|| if options.same_seed { 1 } else { random_seed() }),
            percentiles: options.percentiles.clone().unwrap_or_else(|| PERCENTILES.to_vec()),
        };
        let load = Workload { rate: self.rate(section, &load)?, ..load };
        self.check(section, &load, target.grain)?;
        Ok(load)
    }

    /// Returns the requests per second over all jobs; fio counts per job.
    fn rate(&self, section: &JobSection, load: &Workload) -> Result<Option<f64>> {
        let options = &section.options;
        let per_job = match (options.rate, options.rate_iops) {
            (None, None) => return Ok(None),
            (_, Some(rate)) => rate as f64,
            (Some(bytes), None) if load.largest_block() == load.smallest_block() => {
                bytes as f64 / f64::from(load.largest_block())
            }
            _ => return Err(self.error(section, "rate", "is not supported with several block sizes: use rate_iops")),
        };
        let option = if options.rate_iops.is_some() { "rate_iops" } else { "rate" };
        if options.reads && options.writes {
            let why = "is not supported for mixed reads and writes: write a section for each";
            return Err(self.error(section, option, why));
        }
        if per_job <= 0.0 {
            return Err(self.error(section, option, "must be greater than 0"));
        }
        let jobs = if options.group { options.jobs } else { 1 };
        Ok(Some(per_job * f64::from(jobs)))
    }

    fn check(&self, section: &JobSection, load: &Workload, grain: u64) -> Result<()> {
        let mut blocks = load.read_blocks.iter().chain(&load.write_blocks);
        if let Some(block) = blocks.find(|block| !u64::from(block.bytes).is_multiple_of(grain)) {
            let why = format!("{}: must be a multiple of {grain} with direct=1", block.bytes);
            return Err(self.error(section, "bs", &why));
        }
        if !load.start.is_multiple_of(grain) {
            return Err(self.error(section, "offset", &format!("must be a multiple of {grain} with direct=1")));
        }
        if let AccessPattern::Strided(gap) = load.access
            && !gap.unsigned_abs().is_multiple_of(grain)
        {
            let why = format!("a gap of {gap} bytes: must be a multiple of {grain} with direct=1");
            return Err(self.error(section, "rw", &why));
        }
        if load.size < u64::from(load.largest_block()) {
            return Err(self.error(section, "size", "is less than a block: increase size, or reduce bs"));
        }
        if section.options.time_based && load.seconds.is_none() {
            return Err(self.error(section, "time_based", "needs a runtime: set it, or remove time_based"));
        }
        if load.poll && (load.engine != Engine::IoUring || !load.direct || load.sync.is_some()) {
            let why = "needs ioengine=io_uring and direct=1, and no fsync or fdatasync";
            return Err(self.error(section, "hipri", why));
        }
        if load.engine == Engine::Mmap && load.direct {
            return Err(self.error(section, "direct", "mmap uses the page cache: set direct=0, or another ioengine"));
        }
        Ok(())
    }

    /// Points at the line that set the option, or at the section if none did.
    fn error(&self, section: &JobSection, option: &str, why: &str) -> Error {
        let line = section.lines.get(option).unwrap_or(&section.line);
        Error::new(format!("{}:{line}: [{}] {option}: {why}", self.file.path.display(), section.name))
    }
}

fn access(section: &JobSection) -> AccessPattern {
    let options = &section.options;
    match (options.random, options.distribution) {
        (false, _) if options.gap == 0 => AccessPattern::Sequential,
        (false, _) => AccessPattern::Strided(options.gap),
        (true, Some(distribution)) => distribution,
        (true, None) if options.norandommap => AccessPattern::Uniform,
        (true, None) => AccessPattern::Shuffled,
    }
}

fn random_seed() -> u64 {
    getrandom::u64().unwrap_or(1)
}
