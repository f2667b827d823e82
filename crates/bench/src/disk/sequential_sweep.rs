//! Sequential reads one at a time, as programs do them: by block size and by number of readers, direct and buffered.
//!
//! All sizes are measured in several passes, in alternating order, so that drift of the machine or the device affects
//! all alike. Each run continues where the last one ended, so that a device does not answer from its own cache.

use super::size_knee::{SizedFigure, knee, sentence};
use super::{DiskOptions, DiskPart, RAMP};
use crate::bench_session::BenchSession;
use crate::request_splits::{self, CountedReads, request_splits};
use crate::study::{DISTURBED, REPETITIONS};
use crate::{Progress, Result};
use std::time::Instant;
use whyslow_documents::bench::{
    AccessPattern, Cache, DiskRun, Engine, Measurement, RequestSplit, Round, Study, Workload,
};
use whyslow_model::human;

/// Block sizes from 2 KiB to 4 MiB.
const SMALLEST_BLOCK: u32 = 2 << 10;
const LARGEST_BLOCK: u32 = 4 << 20;
const READERS: [u32; 5] = [1, 2, 4, 8, 16];
/// Block size with several readers: the kernel's default readahead (read_ahead_kb).
const READERS_BLOCK: u32 = 128 << 10;
/// Time that a run takes beyond its measurement, in seconds: to start threads, drop the page cache and read counters.
const OVERHEAD: f64 = 0.03;
/// The sweep ends after this multiple of its planned time: a slow device takes long for large requests.
const PATIENCE: f64 = 1.2;
/// A run shorter than this share of its time ended early because it had nothing left to read.
const WHOLE: f64 = 0.99;

const BLOCKS_METHOD: &str = "One reader, one request at a time. Ten runs of each size, in alternating order; the median. The plateau \
    begins at the earliest at the smallest size that no larger one exceeds by 5 % and by more than the noise, and at the latest \
    where a larger one gains at most 20 % (95 % confidence).";
const READERS_METHOD: &str =
    "Each reader is a thread with its own part, one request of 128 KiB at a time; otherwise as by block size.";

/// Path of the reads: past the page cache, or through it.
#[derive(Clone, Copy, Debug)]
struct ReadPath {
    name: &'static str,
    target: usize,
    cache: Cache,
}

/// A point of the sweep with its measurements.
struct SweepPoint {
    part: DiskPart,
    path: ReadPath,
    block: u32,
    readers: u32,
    samples: Vec<f64>,
    disturbed: usize,
    cpu_bound: usize,
    counted: CountedReads,
}

/// Returns the maximum duration of the sweep in seconds.
pub(super) fn longest(options: &DiskOptions) -> f64 {
    let paths = if options.target.direct { 2 } else { 1 };
    let runs = paths * options.parts.iter().map(|&part| sizes(part).len()).sum::<usize>();
    runs as f64 * (options.seconds * (1.0 + RAMP) * PATIENCE + f64::from(REPETITIONS) * OVERHEAD)
}

/// Returns block size and number of readers of each point.
fn sizes(part: DiskPart) -> Vec<(u32, u32)> {
    let doubled = |block: &u32| (*block < LARGEST_BLOCK).then_some(block * 2);
    match part {
        DiskPart::Depth => Vec::new(),
        DiskPart::Blocks => std::iter::successors(Some(SMALLEST_BLOCK), doubled).map(|block| (block, 1)).collect(),
        DiskPart::Readers => READERS.into_iter().map(|readers| (READERS_BLOCK, readers)).collect(),
    }
}

/// Runs the sweep. If stopped early, reports the results so far.
pub(super) fn measure(
    session: &mut BenchSession,
    options: &DiskOptions,
    target: usize,
) -> Result<(Vec<Study>, Vec<RequestSplit>)> {
    let mut sweep = SequentialSweep::new(session, options, target)?;
    sweep.run()?;
    Ok(sweep.finish())
}

struct SequentialSweep<'s, 'w> {
    session: &'s mut BenchSession<'w>,
    options: &'s DiskOptions,
    target: usize,
    points: Vec<SweepPoint>,
    /// Offset in bytes where the next run begins.
    cursor: u64,
    /// Number of runs left out, and the reason for the first.
    unreliable: usize,
    why: Option<String>,
}

impl<'s, 'w> SequentialSweep<'s, 'w> {
    fn new(session: &'s mut BenchSession<'w>, options: &'s DiskOptions, target: usize) -> Result<Self> {
        let mut paths = Vec::new();
        if session.targets[target].is_direct() {
            let buffered = session.targets[target].buffered()?;
            session.targets.push(buffered);
            paths.push(ReadPath { name: "direct", target, cache: Cache::AsIs });
            paths.push(ReadPath { name: "buffered", target: session.targets.len() - 1, cache: Cache::Cold });
        } else {
            paths.push(ReadPath { name: "buffered", target, cache: options.cache });
        }
        let about = &session.targets[target];
        let (bytes, grain) = (about.about.bytes, about.grain);
        let mut points = Vec::new();
        for &part in &options.parts {
            for &path in &paths {
                let fits = |&(block, readers): &(u32, u32)| {
                    let grain = if session.targets[path.target].is_direct() { grain } else { 1 };
                    u64::from(block) >= grain && u64::from(block) * u64::from(readers) <= bytes
                };
                let point = |(block, readers)| SweepPoint {
                    part,
                    path,
                    block,
                    readers,
                    samples: Vec::new(),
                    disturbed: 0,
                    cpu_bound: 0,
                    counted: CountedReads { block: block.into(), ..CountedReads::default() },
                };
                points.extend(sizes(part).into_iter().filter(fits).map(point));
            }
        }
        Ok(Self { session, options, target, points, cursor: 0, unreliable: 0, why: None })
    }

    fn run(&mut self) -> Result<()> {
        let (began, longest) = (Instant::now(), longest(self.options));
        for pass in 0..REPETITIONS {
            let doing = format!("sequential reads by block size and readers, pass {} of {REPETITIONS}", pass + 1);
            let planned = self.points.len() as f64 * f64::from(REPETITIONS) * self.run_seconds();
            for at in 0..self.points.len() {
                let at = if pass % 2 == 0 { at } else { self.points.len() - 1 - at };
                let elapsed = began.elapsed().as_secs_f64();
                if elapsed > longest {
                    self.session.add_caveat(&format!(
                        "sequential reads were stopped after {}, in pass {} of {REPETITIONS}: the device is too slow for all; \
                         run longer (--for)",
                        human::quantity(elapsed.round(), "s"),
                        pass + 1
                    ));
                    return Ok(());
                }
                let step = Progress { doing: &doing, elapsed, whole: Some(planned.max(elapsed)) };
                if !self.run_point(at, step)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the duration of one run, including its ramp.
    fn run_seconds(&self) -> f64 {
        self.options.seconds * (1.0 + RAMP) / f64::from(REPETITIONS)
    }

    /// Runs a point once. Returns whether to continue.
    fn run_point(&mut self, at: usize, step: Progress) -> Result<bool> {
        let point = &self.points[at];
        let (name, target) = (format!("{} sequential read, {}", point.path.name, point.under()), point.path.target);
        let load = self.load(point);
        let spec = self.session.run_spec("sequential read", target, load);
        let Some(round) = self.session.measure_round("sequential read", &name, &[spec], Some(step))? else {
            return Ok(false);
        };
        let read = round.ledgers.iter().map(|ledger| ledger.asked.read_bytes).sum::<u64>();
        self.cursor = self.cursor.saturating_add(read);
        let hung = round.runs.iter().any(|run| run.hung > 0);
        match unusable(&round) {
            // A run cut short by Ctrl-C is not a sample.
            None if !self.session.stop.is_asked() => self.points[at].add(&round),
            None => {}
            Some(why) => {
                self.unreliable += 1;
                self.why.get_or_insert(why);
            }
        }
        Ok(!hung)
    }

    fn load(&self, point: &SweepPoint) -> Workload {
        let ReadPath { target, cache, .. } = point.path;
        let target = &self.session.targets[target];
        // Data dropped from the page cache is read only once.
        let once = !target.is_direct() && cache != Cache::AsIs;
        let start = if target.is_direct() || once { self.start(target.about.bytes) } else { 0 };
        let block = u64::from(point.block);
        let size = (target.about.bytes - start) / block * block;
        let part = (size / u64::from(point.readers) / block * block).max(block);
        Workload {
            // Programs read with read(2); io_uring would hand a buffered read to a kernel thread.
            engine: if self.options.engine == Engine::Mmap { Engine::Mmap } else { Engine::Psync },
            direct: target.is_direct(),
            cache,
            access: AccessPattern::Sequential,
            jobs: point.readers,
            start,
            size,
            seconds: Some(self.options.seconds / f64::from(REPETITIONS)),
            bytes: once.then_some(part),
            ramp_seconds: if once { 0.0 } else { self.options.seconds / f64::from(REPETITIONS) * RAMP },
            seed: self.options.seed,
            ..Workload::of_blocks(point.block)
        }
    }

    /// Returns where the last run ended, or the beginning if less than a quarter is left.
    fn start(&self, bytes: u64) -> u64 {
        let start = self.cursor % bytes.max(1) / u64::from(LARGEST_BLOCK) * u64::from(LARGEST_BLOCK);
        if start > bytes / 4 * 3 { 0 } else { start }
    }

    fn finish(self) -> (Vec<Study>, Vec<RequestSplit>) {
        let Self { session, options, target, points, unreliable, why, .. } = self;
        if let Some(why) = why {
            let runs = if unreliable == 1 { "run of sequential reads was" } else { "runs of sequential reads were" };
            session.add_caveat(&format!("{unreliable} {runs} left out; the first because {why}"));
        }
        let direct: Vec<CountedReads> = points
            .iter()
            .filter(|point| point.part == DiskPart::Blocks && session.targets[point.path.target].is_direct())
            .map(|point| point.counted.clone())
            .collect();
        let splits = request_splits(&direct, &session.map);
        let studies = options.parts.iter().filter_map(|&part| study(part, &points, target, &splits)).collect();
        (studies, splits)
    }
}

impl SweepPoint {
    fn under(&self) -> String {
        match (self.part, self.readers) {
            (DiskPart::Readers, 1) => "1 reader".into(),
            (DiskPart::Readers, readers) => format!("{readers} readers"),
            _ => human::bytes(self.block.into()),
        }
    }

    fn size(&self) -> u64 {
        if self.part == DiskPart::Readers { self.readers.into() } else { self.block.into() }
    }

    fn add(&mut self, round: &Round) {
        for run in &round.runs {
            let Some(bandwidth) = throughput(run, self.readers) else { continue };
            self.samples.push(bandwidth);
            self.disturbed += usize::from(run.generator.waited.is_some_and(|waited| waited > DISTURBED));
            self.cpu_bound += usize::from(run.generator.was_limit);
        }
        for ledger in &round.ledgers {
            self.counted.add(ledger.asked, &ledger.layers);
        }
    }

    fn figure(&self) -> Option<Measurement> {
        let figure = Measurement::from_samples(self.path.name, self.under(), "bytes/s", self.samples.clone())?;
        Some(Measurement { disturbed: self.disturbed, ..figure })
    }
}

/// Returns why a round cannot be used as a sample.
fn unusable(round: &Round) -> Option<String> {
    round.spoiled.clone().or_else(|| round.runs.iter().find_map(|run| run.failed.clone()))
}

/// Returns the throughput, in bytes per second, of readers that each have one request in flight: their number divided
/// by the mean latency (Little's law). Unlike a count of completed requests, it does not depend on how many fit into
/// the time, which may be one or two. If the readers reached the end of their part, they had no more requests in
/// flight, so the bytes count.
fn throughput(run: &DiskRun, readers: u32) -> Option<f64> {
    let flow = run.read.as_ref()?;
    let is_whole = run.asked.seconds.is_none_or(|seconds| run.seconds >= WHOLE * seconds);
    if !is_whole {
        return (flow.bandwidth > 0.0).then_some(flow.bandwidth);
    }
    let latency = &flow.latency;
    let block = f64::from(run.asked.largest_block());
    (latency.count > 0 && latency.mean > 0.0).then(|| f64::from(readers) * block / latency.mean)
}

fn study(part: DiskPart, points: &[SweepPoint], target: usize, splits: &[RequestSplit]) -> Option<Study> {
    let figures: Vec<(&SweepPoint, Measurement)> =
        points.iter().filter(|point| point.part == part).filter_map(|point| Some((point, point.figure()?))).collect();
    let (name, method, of) = match part {
        DiskPart::Readers => ("sequential read by readers", READERS_METHOD, " of 128 KiB"),
        _ => ("sequential read by block size", BLOCKS_METHOD, ""),
    };
    let mut study = Study { name: name.into(), target: Some(target), method: method.into(), ..Study::default() };
    for curve in figures.chunk_by(|(a, _), (b, _)| a.path.name == b.path.name) {
        let sized = |(point, figure): &'_ (&SweepPoint, Measurement)| {
            (point.size(), figure.clone(), 2 * point.cpu_bound > point.samples.len())
        };
        let owned: Vec<(u64, Measurement, bool)> = curve.iter().map(sized).collect();
        let sized: Vec<SizedFigure> = owned
            .iter()
            .map(|(size, figure, cpu_bound)| SizedFigure { size: *size, figure, cpu_bound: *cpu_bound })
            .collect();
        study.knees.extend(knee(&sized));
        let what = if curve[0].0.path.name == "direct" { "Direct" } else { "Buffered" };
        study.findings.push(sentence(&format!("{what} sequential reads{of}"), &sized));
    }
    study.figures = figures.into_iter().map(|(_, figure)| figure).collect();
    if part == DiskPart::Blocks {
        study.findings.extend(splits.iter().map(request_splits::sentence));
    }
    (!study.figures.is_empty()).then_some(study)
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::bench::{CpuCost, DiskSeries, Generator, Latency, RequestStats};

    fn run(seconds: f64, count: u64, mean: f64, bandwidth: f64) -> DiskRun {
        let latency = Latency { count, mean, ..Latency::default() };
        DiskRun {
            name: String::new(),
            target: 0,
            asked: Workload { seconds: Some(0.1), ..Workload::of_blocks(1 << 20) },
            seconds,
            read: Some(RequestStats { latency, bandwidth, ..RequestStats::default() }),
            write: None,
            sync: None,
            series: DiskSeries::default(),
            cost: CpuCost::default(),
            generator: Generator::default(),
            failed: None,
            hung: 0,
            behind: 0,
        }
    }

    #[test]
    fn throughput_does_not_depend_on_how_many_requests_fit_into_the_time() {
        const MIB: f64 = 1_048_576.0;
        // One request of 250 ms, in a run of 100 ms in which none completed.
        assert_eq!(throughput(&run(0.1, 1, 0.25, 0.0), 1), Some(4.0 * MIB));
        assert_eq!(throughput(&run(0.1, 8, 0.05, 160.0 * MIB), 4), Some(80.0 * MIB));
        // Two of four readers finished early.
        assert_eq!(throughput(&run(0.05, 8, 0.05, 30.0 * MIB), 4), Some(30.0 * MIB));
        assert_eq!(throughput(&run(0.1, 0, 0.0, 0.0), 4), None);
    }

    #[test]
    fn block_sizes_and_readers_are_doubled() {
        let blocks: Vec<u32> = sizes(DiskPart::Blocks).into_iter().map(|(block, _)| block >> 10).collect();
        assert_eq!(blocks, [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]);
        assert_eq!(sizes(DiskPart::Readers).last(), Some(&(128 << 10, 16)));
    }
}
