//! Studies: figures that pinned threads measure repeatedly, such as those of memory and CPUs.

use crate::bench_session::BenchSession;
use crate::cpu_topology::CpuTopology;
use crate::round::{UsageSnapshot, pin_to};
use crate::{Error, ProgressFn, Result, Stop};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_documents::bench::{BenchKind, BenchReport, Measurement, Study};
use whyslow_model::human;
use whyslow_sense::Root;

pub(crate) const REPETITIONS: u32 = 10;
/// Maximum duration of a repetition, as a multiple of its measured time, if its overhead dominates.
const MAX_OVERHEAD: u32 = 20;
/// Minimum share of a repetition that counts, however long its threads waited: part of the wait may have been overhead.
const MIN_COUNTED: f64 = 0.05;
/// Share of a repetition that a thread may wait for its CPU before the repetition counts as disturbed.
pub(crate) const DISTURBED: f64 = 0.01;

/// Time base of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeBasis {
    /// Time on a CPU, for work that never blocks: excludes time used by other processes.
    OnCpu,
    /// Wall-clock time, for work that sleeps and wakes.
    Wall,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RepeatOptions<'s> {
    /// Time for all repetitions together.
    pub(crate) time: Duration,
    pub(crate) clock: TimeBasis,
    pub(crate) stop: &'s Stop,
}

/// Work done, and time spent on unmeasured overhead.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WorkDone {
    pub(crate) amount: u64,
    pub(crate) overhead: Duration,
}

impl From<u64> for WorkDone {
    fn from(amount: u64) -> Self {
        Self { amount, overhead: Duration::ZERO }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Repetitions {
    /// Work of all threads per second, for each repetition.
    rates: Vec<f64>,
    /// Number of repetitions in which a thread waited for its CPU.
    disturbed: usize,
}

impl Repetitions {
    pub(crate) fn rate(self, name: &str, under: &str, unit: &str) -> Option<Measurement> {
        let disturbed = self.disturbed;
        Measurement::from_samples(name, under, unit, self.rates).map(|figure| Measurement { disturbed, ..figure })
    }

    /// Converts the rates to the time of one unit of work.
    pub(crate) fn time(mut self, name: &str, under: &str) -> Option<Measurement> {
        self.rates.iter_mut().for_each(|rate| *rate = rate.recip());
        self.rate(name, under, "s")
    }
}

/// Formats a ratio, with a note if it may be due to chance.
pub(crate) fn times(figure: &Measurement, other: &Measurement) -> String {
    let noise = if figure.is_apart_from(other) { "" } else { " (within noise)" };
    format!("{:.2} times{noise}", figure.value / other.value)
}

/// Runs a thread on each CPU, in [`REPETITIONS`] after a warm-up that lets caches, TLBs and clock frequencies settle.
/// Each thread prepares its work on its own CPU, so that its memory is local. If stopped early, there are fewer
/// repetitions. Fails if a thread cannot start or prepare.
pub(crate) fn repeat<W, P>(
    cpus: &[u32],
    options: RepeatOptions<'_>,
    prepare: impl Fn(u32) -> Result<W> + Sync,
) -> Result<Repetitions>
where
    W: FnMut() -> P,
    P: Into<WorkDone>,
{
    thread::scope(|scope| {
        let (result_to, results) = mpsc::channel();
        let mut starts = Vec::new();
        for &cpu in cpus {
            let (start, begin) = mpsc::channel();
            let (result_to, prepare) = (result_to.clone(), &prepare);
            let thread = thread::Builder::new().name("bench".into());
            let started = thread.spawn_scoped(scope, move || run_thread(cpu, options, prepare, &begin, &result_to));
            started.map_err(|e| Error::new(human::no_thread(&e)))?;
            starts.push(start);
        }
        drop(result_to);
        sum_results(&results, cpus.len())?;
        let mut all = Repetitions::default();
        for repetition in 0..=REPETITIONS {
            if options.stop.is_asked() {
                break;
            }
            for start in &starts {
                // A thread that has ended is noticed below.
                let _ = start.send(());
            }
            let result = sum_results(&results, cpus.len())?;
            if repetition > 0 && !options.stop.is_asked() {
                all.rates.push(result.rate);
                all.disturbed += usize::from(result.disturbed);
            }
        }
        Ok(all)
    })
}

#[derive(Clone, Copy, Debug, Default)]
struct RepetitionResult {
    rate: f64,
    disturbed: bool,
}

/// Adds up the results of all threads.
fn sum_results(results: &Receiver<Result<RepetitionResult>>, threads: usize) -> Result<RepetitionResult> {
    (0..threads).try_fold(RepetitionResult::default(), |sum, _| {
        let result = results.recv().unwrap_or_else(|_| Err(Error::new("a measuring thread has ended")))?;
        Ok(RepetitionResult { rate: sum.rate + result.rate, disturbed: sum.disturbed || result.disturbed })
    })
}

/// Prepares, reports that it is ready or why it is not, and runs a repetition for each message.
fn run_thread<W: FnMut() -> P, P: Into<WorkDone>>(
    cpu: u32,
    options: RepeatOptions<'_>,
    prepare: impl Fn(u32) -> Result<W>,
    begin: &Receiver<()>,
    result_to: &Sender<Result<RepetitionResult>>,
) {
    let kept = pin_to(&[cpu]).map_err(|e| Error::new(format!("cannot pin a thread to CPU {cpu}: {e}")));
    let mut step = match kept.and_then(|()| prepare(cpu)) {
        Ok(step) => step,
        Err(e) => return drop(result_to.send(Err(e))),
    };
    // The receiver is gone if another thread could not prepare.
    let mut receives = result_to.send(Ok(RepetitionResult::default())).is_ok();
    while receives && begin.recv().is_ok() {
        receives = result_to.send(Ok(repetition(options, &mut step))).is_ok();
    }
}

/// Runs one repetition of at least one unit of work.
fn repetition<P: Into<WorkDone>>(options: RepeatOptions<'_>, step: &mut impl FnMut() -> P) -> RepetitionResult {
    let time = options.time / REPETITIONS;
    let before = UsageSnapshot::take();
    let began = Instant::now();
    let mut done = WorkDone::default();
    let measured = loop {
        let more: WorkDone = step().into();
        done = WorkDone { amount: done.amount + more.amount, overhead: done.overhead + more.overhead };
        let elapsed = began.elapsed();
        let measured = elapsed.saturating_sub(done.overhead);
        if measured >= time || elapsed >= time * MAX_OVERHEAD || options.stop.is_asked() {
            break measured.as_secs_f64();
        }
    };
    let used = before.since();
    // For work that sleeps, waiting for the CPU is part of the measurement.
    let waited = used.waited.filter(|_| options.clock == TimeBasis::OnCpu).unwrap_or(0.0);
    let measured = (measured - waited * used.wall).max(MIN_COUNTED * measured);
    RepetitionResult { rate: done.amount as f64 / measured.max(1e-9), disturbed: waited > DISTURBED }
}

pub(crate) type StudyFn<'m> = &'m dyn Fn(&mut StudyContext<'_>) -> Result<Study>;

/// Context shared by all studies.
pub(crate) struct StudyContext<'w> {
    pub(crate) root: Root,
    pub(crate) topology: CpuTopology,
    /// Measured time of each figure.
    pub(crate) time: Duration,
    pub(crate) session: BenchSession<'w>,
}

impl<'w> StudyContext<'w> {
    pub(crate) fn begin(seconds: f64, stop: &Stop, progress: ProgressFn<'w>) -> Self {
        let root = Root::live();
        Self {
            topology: CpuTopology::read(&root),
            time: Duration::from_secs_f64(seconds),
            session: BenchSession::begin(stop, progress),
            root,
        }
    }

    pub(crate) fn options(&self, clock: TimeBasis) -> RepeatOptions<'_> {
        RepeatOptions { time: self.time, clock, stop: &self.session.stop }
    }

    /// Runs studies and reports those with figures.
    pub(crate) fn report(mut self, kind: BenchKind, studies: &[StudyFn<'_>]) -> Result<BenchReport> {
        let studies: Vec<Study> = studies.iter().map(|study| study(&mut self)).collect::<Result<_>>()?;
        let studies = studies.into_iter().filter(|study| !study.figures.is_empty()).collect();
        Ok(BenchReport { studies, ..self.session.finish(kind) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn options(stop: &Stop) -> RepeatOptions<'_> {
        RepeatOptions { time: Duration::from_millis(20), clock: TimeBasis::Wall, stop }
    }

    fn cpus() -> Vec<u32> {
        CpuTopology::read(&whyslow_sense::Root::live()).spread_over_cores()
    }

    #[test]
    fn the_work_of_all_threads_is_summed_up() {
        let cpus = cpus();
        let prepared = AtomicUsize::new(0);
        let sleeps = |_| {
            prepared.fetch_add(1, Ordering::Relaxed);
            Ok(|| {
                thread::sleep(Duration::from_millis(1));
                1
            })
        };
        let repeated = repeat(&cpus, options(&Stop::default()), sleeps).unwrap();
        assert_eq!(prepared.load(Ordering::Relaxed), cpus.len());
        let figure = repeated.rate("naps", "", "1/s").unwrap();
        assert_eq!(figure.samples.len(), REPETITIONS as usize);
        // A sleep is never shorter than requested.
        assert!(figure.samples.iter().all(|&rate| rate > 0.0 && rate <= 1000.0 * cpus.len() as f64), "{figure:?}");
    }

    #[test]
    fn overhead_does_not_count() {
        let run_thread = |_| {
            Ok(|| {
                let start = Instant::now();
                thread::sleep(Duration::from_millis(5));
                WorkDone { amount: 1, overhead: start.elapsed() }
            })
        };
        let figure = repeat(&cpus()[..1], options(&Stop::default()), run_thread).unwrap().time("nap", "").unwrap();
        assert!(figure.samples.iter().any(|&nap| nap < 0.005), "{figure:?}");
    }

    #[test]
    fn a_thread_that_cannot_prepare_fails_the_measurement() {
        let refuse = |_| if true { Err(Error::new("no memory")) } else { Ok(|| 1) };
        let refused = repeat(&cpus(), options(&Stop::default()), refuse).unwrap_err();
        assert_eq!(refused.to_string(), "no memory");
        let nowhere = repeat(&[u32::MAX], options(&Stop::default()), |_| Ok(|| 1)).unwrap_err();
        assert!(nowhere.to_string().contains("cannot pin a thread to CPU 4294967295"), "{nowhere}");
    }

    #[test]
    fn a_ratio_within_noise_is_marked() {
        let around = |value: f64| {
            Measurement::from_samples("x", "", "s", (0..10).map(|i| value + f64::from(i)).collect()).unwrap()
        };
        assert_eq!(times(&around(95.5), &around(45.5)), "2.00 times");
        assert_eq!(times(&around(100.0), &around(101.0)), "0.99 times (within noise)");
    }

    #[test]
    fn a_stopped_measurement_has_no_figures() {
        let stop = Stop::default();
        stop.ask();
        assert_eq!(repeat(&cpus(), options(&stop), |_| Ok(|| 1)).unwrap().time("x", ""), None);
    }
}
