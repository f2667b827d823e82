//! State shared by all benchmarks: targets, rounds, caveats, and the report at the end.

use crate::accounting::{AccountingRecorder, disturbed_by_others, not_from_device};
use crate::budget::{Budget, SpaceNeeded, check_memory};
use crate::environment::EnvironmentMonitor;
use crate::page_cache::{MemoryLimit, drop_cached};
use crate::round::{self, RunResult, RunSpec};
use crate::target::{BenchTarget, StorageMap, TargetSpec};
use crate::{Error, Progress, ProgressFn, Result, Stop};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use whyslow_documents::bench::{
    AccessPattern, BenchKind, BenchReport, Cache, DiskRun, Engine, IoAccounting, Round, SCHEMA, SyncPolicy, TargetInfo,
    Traffic, Workload,
};
use whyslow_model::human;
use whyslow_sense::Root;

/// Block size and queue depth for filling files before they are measured.
const FILL_BLOCK: u32 = 1 << 20;
const FILL_DEPTH: u32 = 8;

pub(crate) struct BenchSession<'w> {
    pub(crate) map: StorageMap,
    pub(crate) targets: Vec<BenchTarget>,
    /// Targets that are already closed; the report lists them after the others.
    pub(crate) closed: Vec<TargetInfo>,
    /// Devices claimed until the benchmark ends.
    pub(crate) guards: Vec<File>,
    accounting: AccountingRecorder,
    budget: Budget,
    root: Root,
    environment: EnvironmentMonitor,
    pub(crate) stop: Stop,
    progress: ProgressFn<'w>,
    pub(crate) rounds: Vec<Round>,
    pub(crate) caveats: Vec<String>,
}

impl<'w> BenchSession<'w> {
    pub(crate) fn begin(stop: &Stop, progress: ProgressFn<'w>) -> Self {
        let root = Root::live();
        Self {
            map: StorageMap::new(root.clone()),
            targets: Vec::new(),
            closed: Vec::new(),
            guards: Vec::new(),
            accounting: AccountingRecorder::new(root.clone()),
            budget: Budget::new(&root),
            root: root.clone(),
            environment: EnvironmentMonitor::begin(root),
            stop: stop.clone(),
            progress,
            rounds: Vec::new(),
            caveats: Vec::new(),
        }
    }

    /// Opens a target and returns its index. Fails if it must not or cannot be measured.
    pub(crate) fn open(&mut self, spec: &TargetSpec) -> Result<usize> {
        let target = self.claim(spec)?;
        self.caveats.extend(target.caveats.iter().cloned());
        self.targets.push(target);
        Ok(self.targets.len() - 1)
    }

    /// Opens a target without adding it or its caveats, which are about reading, to the report.
    pub(crate) fn claim(&mut self, spec: &TargetSpec) -> Result<BenchTarget> {
        if spec.path.is_dir() {
            self.reserve(&spec.path, SpaceNeeded::file(spec.size))?;
        }
        let target = BenchTarget::open(&self.map, spec)?;
        let device = target.about.device.as_deref().filter(|_| spec.write && target.about.file_system.is_none());
        for (folder, bytes) in device.map(|device| self.map.unallocated(device)).unwrap_or_default() {
            self.reserve(&folder, SpaceNeeded { bytes, inodes: 0 })?;
        }
        Ok(target)
    }

    /// Reserves space on a folder's file system, in addition to what was reserved before.
    pub(crate) fn reserve(&mut self, folder: &Path, need: SpaceNeeded) -> Result<()> {
        let (name, kind) = self.map.file_system(folder)?;
        self.budget.reserve(folder, &name, &kind, need)
    }

    /// Checks that there is space, without reserving it.
    pub(crate) fn check_space(&self, folder: &Path, need: SpaceNeeded) -> Result<()> {
        let (name, kind) = self.map.file_system(folder)?;
        self.budget.check(folder, &name, &kind, need)
    }

    /// Checks that the buffers of workloads that run together fit in memory.
    pub(crate) fn check_memory(&self, specs: &[RunSpec]) -> Result<()> {
        check_memory(&self.root, specs)
    }

    pub(crate) fn check_block_fits(&self, target: usize, block: u32) -> Result<()> {
        let about = &self.targets[target].about;
        if about.bytes >= block.into() {
            return Ok(());
        }
        let (path, holds, block) = (&about.path, human::bytes(about.bytes), human::bytes(block.into()));
        let advice = "choose a larger target, or a larger --size";
        Err(Error::new(format!("{path} has {holds}, less than a block of {block}: {advice}")))
    }

    /// Returns the largest request to a target that can be polled for, in bytes.
    pub(crate) fn largest_polled(&mut self, target: usize) -> Result<u64> {
        let largest = self.map.largest_polled(&self.targets[target].about)?;
        self.add_caveat("a polling thread is always busy, so whether the CPU was the limit is unknown");
        Ok(largest)
    }

    /// Adds a caveat to the report, once.
    pub(crate) fn add_caveat(&mut self, caveat: &str) {
        if !self.caveats.iter().any(|known| known == caveat) {
            self.caveats.push(caveat.into());
        }
    }

    /// Adds a caveat if a device was read while in use, as the options allow.
    pub(crate) fn add_in_use_caveat(&mut self, target: usize, spec: &TargetSpec) {
        let about = &self.targets[target].about;
        if spec.in_use && about.file_system.is_none() {
            let note = "was read while in use: its counters may include requests of other processes";
            self.caveats.push(format!("{} {note}", about.path));
        }
    }

    /// Writes all of a temporary file, so that reads of it reach the device.
    pub(crate) fn fill(&mut self, target: usize, load: &Workload) -> Result<()> {
        let file = &self.targets[target];
        let fill = Workload {
            engine: if load.engine == Engine::IoUring { Engine::IoUring } else { Engine::Psync },
            direct: load.direct,
            access: AccessPattern::Sequential,
            reads: 0.0,
            depth: if load.engine == Engine::IoUring { FILL_DEPTH } else { 1 },
            size: file.whole_blocks(FILL_BLOCK),
            sync: Some(SyncPolicy { every: None, data_only: true }),
            verify: load.verify,
            seed: load.seed,
            ..Workload::of_blocks(FILL_BLOCK)
        };
        let (path, file) = (file.about.path.clone(), file.file.clone());
        match self.run_apart("writing the file to measure", file, fill)?.failed {
            Some(why) => Err(Error::new(format!("{path}: cannot fill the temporary file: {why}"))),
            None => Ok(()),
        }
    }

    /// Runs a workload on a file without accounting, and without adding it to the report.
    pub(crate) fn run_apart(&mut self, name: &str, file: Arc<File>, load: Workload) -> Result<DiskRun> {
        let spec = RunSpec { name: name.into(), target: 0, load, files: vec![file], delay: 0.0 };
        let results = round::run(name, &[spec], &self.stop, self.progress)?;
        let run = results.into_iter().next().map(|result| result.run);
        run.ok_or_else(|| Error::new(format!("{name}: the workload did not run")))
    }

    pub(crate) fn report_progress(&mut self, progress: Progress) {
        (self.progress)(progress);
    }

    /// Reports the next step. Returns false if the benchmark must end instead.
    pub(crate) fn proceed_to(&mut self, doing: &str) -> bool {
        self.report_progress(Progress { doing, elapsed: self.environment.seconds(), whole: None });
        !self.stop.is_asked()
    }

    pub(crate) fn run_spec(&self, name: &str, target: usize, load: Workload) -> RunSpec {
        let files = vec![self.targets[target].file.clone()];
        RunSpec { name: name.into(), target, load, files, delay: 0.0 }
    }

    /// Runs a round with its accounting and adds it to the report. Returns `None` if the benchmark was stopped before.
    /// Fails if the round cannot start.
    pub(crate) fn run_round(&mut self, group: &str, name: &str, specs: &[RunSpec]) -> Result<Option<&Round>> {
        let Some(round) = self.measure_round(group, name, specs, None)? else { return Ok(None) };
        self.rounds.push(round);
        Ok(self.rounds.last())
    }

    /// Runs a round without adding it to the report. Reports the progress of `part_of`, if the round is part of such a
    /// step.
    pub(crate) fn measure_round(
        &mut self,
        group: &str,
        name: &str,
        specs: &[RunSpec],
        part_of: Option<Progress>,
    ) -> Result<Option<Round>> {
        if self.stop.is_asked() {
            return Ok(None);
        }
        if specs.iter().any(|spec| !spec.load.direct)
            && let Some(caveat) = self.environment.page_cache_caveat()
        {
            self.add_caveat(caveat);
        }
        self.check_memory(specs)?;
        let _limit = prepare_page_cache(specs)?;
        let mut used: Vec<usize> = specs.iter().map(|spec| spec.target).collect();
        used.sort_unstable();
        used.dedup();
        let before = self.accounting.start(&used.iter().map(|&at| &self.targets[at]).collect::<Vec<_>>());
        let mut say = |at: Progress| {
            (self.progress)(part_of.map_or(at, |step| Progress { elapsed: step.elapsed + at.elapsed, ..step }));
        };
        let mut results = round::run(name, specs, &self.stop, &mut say)?;
        let asked: Vec<_> = used.iter().map(|&at| (at, &self.targets[at], asked(&results, at))).collect();
        let accounting = self.accounting.finish(before, &self.map, &asked);
        share_cost(&mut results, accounting.machine);
        let counts_all = |accounting: &&IoAccounting| {
            let target = &self.targets[accounting.target];
            target.is_direct() && self.map.counts_all(&target.about)
        };
        let missed = accounting.targets.iter().filter(counts_all).find_map(not_from_device);
        let spoiled = disturbed_by_others(&accounting.targets).or(missed);
        let runs = results.into_iter().map(|result| result.run).collect();
        let (name, group, ledgers) = (name.into(), group.into(), accounting.targets);
        Ok(Some(Round { name, group, runs, ledgers, spoiled }))
    }

    /// Returns the report, without the results that only some kinds of benchmarks have.
    pub(crate) fn finish(self, kind: BenchKind) -> BenchReport {
        let (started, started_ms) = self.environment.started().unzip();
        let seconds = self.environment.seconds();
        let targets: Vec<TargetInfo> = self.targets.into_iter().map(|target| target.about).chain(self.closed).collect();
        let environment = self.environment.end(&targets);
        BenchReport {
            schema: SCHEMA.to_owned(),
            kind,
            started,
            started_ms,
            seconds,
            interrupted: self.stop.is_asked(),
            environment,
            targets,
            rounds: self.rounds,
            ceilings: Vec::new(),
            splits: Vec::new(),
            layers: Vec::new(),
            files: Vec::new(),
            pairs: Vec::new(),
            studies: Vec::new(),
            network: None,
            caveats: self.caveats,
        }
    }
}

/// Drops files from the page cache as the workloads require, and limits its size until the result is dropped.
fn prepare_page_cache(specs: &[RunSpec]) -> Result<Option<MemoryLimit>> {
    let mut limit = None;
    for spec in specs.iter().filter(|spec| spec.load.cache != Cache::AsIs) {
        for file in &spec.files {
            drop_cached(file)
                .map_err(|e| Error::new(format!("{}: cannot drop it from the page cache: {e}", spec.name)))?;
        }
        if let Cache::Small(bytes) = spec.load.cache {
            limit = Some(bytes);
        }
    }
    limit.map(MemoryLimit::apply).transpose()
}

/// Returns the I/O requested of a target in a round.
fn asked(results: &[RunResult], target: usize) -> Traffic {
    let of_target = results.iter().filter(|result| result.run.target == target);
    of_target.fold(Traffic::default(), |sum, result| sum.plus(result.asked))
}

/// Divides the machine's CPU time evenly among all requests of a round.
fn share_cost(results: &mut [RunResult], machine: Option<f64>) {
    let operations = |traffic: Traffic| traffic.reads + traffic.writes + traffic.flushes;
    let all: u64 = results.iter().map(|result| operations(result.asked)).sum();
    let each = machine.filter(|_| all > 0).map(|seconds| seconds / all as f64);
    results.iter_mut().for_each(|result| result.run.cost.machine_per_operation = each);
}
