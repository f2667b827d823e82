//! `bench disk`: IOPS and bandwidth of a disk by queue depth, block size and number of readers.

mod depth_sweep;
mod sequential_sweep;
mod size_knee;

use crate::bench_session::BenchSession;
use crate::target::TargetSpec;
use crate::{Error, Progress, Result, Stop};
use depth_sweep::{DepthPoint, DepthSweep, MOST_RUNS};
use whyslow_documents::bench::{
    AccessPattern, BenchKind, BenchReport, Cache, Ceiling, Engine, Limit, SyncPolicy, Workload,
};
use whyslow_model::human;

/// Options of `bench disk`.
#[derive(Clone, Debug)]
pub struct DiskOptions {
    /// Target to measure.
    pub target: TargetSpec,
    /// Parts of the benchmark to run.
    pub parts: Vec<DiskPart>,
    /// I/O engine.
    pub engine: Engine,
    /// Poll for completions; needs io_uring, direct I/O, and a device with polled queues.
    pub poll: bool,
    /// How to treat the page cache before each run.
    pub cache: Cache,
    /// Measured time of each run, seconds.
    pub seconds: f64,
    /// Seed of random offsets.
    pub seed: u64,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskPart {
    /// Throughput and latency by queue depth.
    Depth,
    /// Sequential reads by block size.
    Blocks,
    /// Sequential reads by number of readers.
    Readers,
}

/// Unmeasured lead time of a run, as a share of its length: queues fill, and device caches adapt.
const RAMP: f64 = 0.2;
const SMALL: u32 = 4096;
const LARGE: u32 = 1 << 20;
/// Further block sizes, measured at the best depth for small ones.
const MEDIUM: [u32; 3] = [16 << 10, 64 << 10, 256 << 10];

#[derive(Clone, Copy)]
struct RequestKind {
    name: &'static str,
    access: AccessPattern,
    reads: f64,
    limit: Limit,
}

const READS: [RequestKind; 2] = [
    RequestKind { name: "random read", access: AccessPattern::Uniform, reads: 1.0, limit: Limit::Requests },
    RequestKind { name: "sequential read", access: AccessPattern::Sequential, reads: 1.0, limit: Limit::Bandwidth },
];
const WRITES: [RequestKind; 2] = [
    RequestKind { name: "random write", access: AccessPattern::Uniform, reads: 0.0, limit: Limit::Requests },
    RequestKind { name: "sequential write", access: AccessPattern::Sequential, reads: 0.0, limit: Limit::Bandwidth },
];

/// Runs the benchmark. If stopped early, reports the results so far.
///
/// # Errors
/// Fails if the target must not or cannot be measured.
pub fn measure(options: &DiskOptions, stop: &Stop, progress: &mut dyn FnMut(Progress)) -> Result<BenchReport> {
    let mut session = BenchSession::begin(stop, progress);
    let target = session.open(&options.target)?;
    check_engine(options, &session)?;
    let largest_polled = if options.poll { session.largest_polled(target)? } else { 0 };
    if options.poll && largest_polled < u64::from(LARGE) {
        let most = human::bytes(largest_polled);
        session
            .caveats
            .push(format!("requests of more than {most} are split by the kernel, so they were not polled for"));
    }
    session.add_in_use_caveat(target, &options.target);
    let mut benchmark = DiskBenchmark { session, options, target, largest_polled, ceilings: Vec::new() };
    benchmark.session.check_block_fits(target, benchmark.small())?;
    benchmark.run()?;
    let (studies, splits) = sequential_sweep::measure(&mut benchmark.session, options, target)?;
    let DiskBenchmark { session, ceilings, .. } = benchmark;
    Ok(BenchReport { ceilings, studies, splits, ..session.finish(BenchKind::Disk) })
}

/// Returns the maximum duration of the benchmark in seconds, not counting the time to fill a file.
pub fn longest(options: &DiskOptions) -> f64 {
    let depth = if options.parts.contains(&DiskPart::Depth) {
        let kinds = if is_written(options) { READS.len() + WRITES.len() } else { READS.len() };
        let jobs = cpus().ilog2();
        // Each kind by depth and by jobs, every second kind by block size, and synced writes.
        let runs = kinds * (MOST_RUNS + jobs as usize) + kinds / 2 * MEDIUM.len() + usize::from(is_written(options));
        runs as f64 * options.seconds * (1.0 + RAMP)
    } else {
        0.0
    };
    depth + sequential_sweep::longest(options)
}

/// Returns whether writes are measured.
fn is_written(options: &DiskOptions) -> bool {
    options.target.write || options.target.path.is_dir()
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, usize::from) as u32
}

fn check_engine(options: &DiskOptions, session: &BenchSession) -> Result<()> {
    // If another process truncates a mapped file, reading it kills the program (SIGBUS).
    if options.engine == Engine::Mmap && session.targets.iter().any(|target| target.about.kind == "file") {
        let path = options.target.path.display();
        return Err(Error::new(format!(
            "{path}: --engine mmap does not read existing files, which others may truncate; name a device or a folder"
        )));
    }
    if options.poll && (options.engine != Engine::IoUring || !options.target.direct) {
        return Err(Error::new("--poll needs --engine io_uring and --cache none (direct I/O)"));
    }
    Ok(())
}

struct DiskBenchmark<'w> {
    session: BenchSession<'w>,
    options: &'w DiskOptions,
    target: usize,
    /// Largest request that can be polled for, in bytes.
    largest_polled: u64,
    ceilings: Vec<Ceiling>,
}

impl DiskBenchmark<'_> {
    fn run(&mut self) -> Result<()> {
        let temporary = self.session.targets[self.target].temporary;
        if temporary {
            self.session.fill(self.target, &self.load(READS[0], SMALL))?;
        }
        if !self.options.parts.contains(&DiskPart::Depth) {
            return Ok(());
        }
        for kind in READS {
            self.find_maximum(kind)?;
        }
        if temporary || self.options.target.write {
            for kind in WRITES {
                self.find_maximum(kind)?;
            }
            self.synced_writes()?;
        }
        Ok(())
    }

    fn find_maximum(&mut self, kind: RequestKind) -> Result<()> {
        let block = match kind.limit {
            Limit::Requests => self.small(),
            Limit::Bandwidth => LARGE,
        };
        let mut sweep = DepthSweep::new();
        while let Some(depth) = sweep.next() {
            match self.point(kind, block, depth, 1)? {
                Some(point) => sweep.add(point),
                None => break,
            }
        }
        if sweep.is_cpu_bound() {
            self.add_jobs(kind, block, &mut sweep)?;
        }
        self.ceilings.extend(sweep.ceiling(kind.name, kind.limit, block));
        if kind.limit == Limit::Requests {
            let depth = sweep.knee().map_or(1, |knee| knee.depth);
            let grain = self.grain();
            for block in MEDIUM.into_iter().filter(|&block| block > grain) {
                self.point(kind, block, depth, 1)?;
            }
        }
        Ok(())
    }

    /// Spreads the requests over more threads if one was too slow.
    fn add_jobs(&mut self, kind: RequestKind, block: u32, sweep: &mut DepthSweep) -> Result<()> {
        let cpus = cpus();
        let depth = sweep.best().map_or(1, |best| best.depth);
        let mut jobs = 2;
        while jobs <= cpus && jobs <= depth {
            let Some(point) = self.point(kind, block, depth, jobs)? else { break };
            if !sweep.add_shared(point) {
                break;
            }
            jobs *= 2;
        }
        Ok(())
    }

    /// Measures small writes, each followed by fdatasync(2), like those of a database log.
    fn synced_writes(&mut self) -> Result<()> {
        let block = self.small();
        let sync = Some(SyncPolicy { every: Some(1), data_only: true });
        // A flush cannot be polled for.
        let load = Workload { access: AccessPattern::Sequential, sync, poll: false, ..self.load(WRITES[1], block) };
        let name = format!("write of {}, each synced (fdatasync)", human::bytes(block.into()));
        let spec = self.session.run_spec("synced write", self.target, load);
        self.session.run_round("synced write", &name, &[spec])?;
        Ok(())
    }

    /// Measures one point. Returns `None` if it was stopped before anything completed.
    fn point(&mut self, kind: RequestKind, block: u32, depth: u32, jobs: u32) -> Result<Option<DepthPoint>> {
        // The other engines have one request in flight per thread.
        let jobs = if self.options.engine == Engine::IoUring { jobs } else { depth };
        let load = Workload { jobs, depth: depth / jobs, ..self.load(kind, block) };
        if load.size < u64::from(block) {
            return Ok(None);
        }
        let shared = if jobs > 1 { format!(" by {jobs} jobs") } else { String::new() };
        let name = format!("{} of {}, {depth} in flight{shared}", kind.name, human::bytes(block.into()));
        let spec = [self.session.run_spec(kind.name, self.target, load)];
        if let Err(why) = self.session.check_memory(&spec) {
            self.session.add_caveat(&format!("queue depths above {} were not measured: {why}", depth / 2));
            return Ok(None);
        }
        let round = self.session.run_round(kind.name, &name, &spec)?;
        Ok(round.and_then(|round| DepthPoint::from_run(depth, round.runs.first()?)))
    }

    fn load(&self, kind: RequestKind, block: u32) -> Workload {
        let target = &self.session.targets[self.target];
        Workload {
            engine: self.options.engine,
            poll: u64::from(block) <= self.largest_polled,
            direct: target.is_direct(),
            cache: self.options.cache,
            access: kind.access,
            reads: kind.reads,
            size: target.whole_blocks(block),
            seconds: Some(self.options.seconds),
            ramp_seconds: self.options.seconds * RAMP,
            seed: self.options.seed,
            ..Workload::of_blocks(block)
        }
    }

    fn small(&self) -> u32 {
        SMALL.max(self.grain())
    }

    fn grain(&self) -> u32 {
        u32::try_from(self.session.targets[self.target].grain).unwrap_or(SMALL)
    }
}
