//! A round: workloads that run at the same time, each on a number of threads.

mod load_thread;
mod usage;

pub(crate) use usage::{ThreadUsage, UsageSnapshot, pin_to};

use crate::engine::{GRACE, StopEvent};
use crate::load::{JobResult, JobStart, MeasuredSpan, RunStats, since};
use crate::{Error, Progress, ProgressFn, Result, Stop};
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use whyslow_documents::bench::{CpuCost, DiskRun, Generator, RequestStats, Traffic, Workload};

/// A workload and its target.
#[derive(Clone, Debug)]
pub(crate) struct RunSpec {
    pub(crate) name: String,
    /// Index into the report's targets.
    pub(crate) target: usize,
    pub(crate) load: Workload,
    /// One file for all jobs, or one per job.
    pub(crate) files: Vec<Arc<File>>,
    /// Delay in seconds after the start of the round.
    pub(crate) delay: f64,
}

#[derive(Debug)]
pub(crate) struct RunResult {
    pub(crate) run: DiskRun,
    /// All requests, including those of the ramp.
    pub(crate) asked: Traffic,
}

/// Interval for checking whether a round has to end.
const TICK: Duration = Duration::from_millis(50);
/// Share of its time that a thread must run, or wait for a CPU, to count as the limit: it had no time left to wait for
/// the target.
const CPU_BOUND: f64 = 0.9;

/// Runs a round. Fails if a workload cannot start; later failures are reported in its [`DiskRun`].
pub(crate) fn run(name: &str, specs: &[RunSpec], stop: &Stop, progress: ProgressFn) -> Result<Vec<RunResult>> {
    let mut threads = LoadThreads::spawn(specs)?;
    let epoch = threads.begin(specs);
    let whole = specs.iter().map(RunSpec::end).try_fold(0.0, |most: f64, end| Some(most.max(end?)));
    let mut all_stopped_at = None;
    loop {
        let elapsed = since(epoch);
        if stop.is_asked() || all_stopped_at.is_none() && threads.stop_due(elapsed) {
            threads.stop_all();
            all_stopped_at.get_or_insert_with(Instant::now);
        }
        if threads.collect(threads.next_end(elapsed)) || all_stopped_at.is_some_and(|at| at.elapsed() > GRACE + GRACE) {
            break;
        }
        progress(Progress { doing: name, elapsed: elapsed as f64 / 1e9, whole });
    }
    Ok(threads.finish(specs))
}

impl RunSpec {
    /// Returns the end in seconds after the start of the round; `None` if the workload ends by itself.
    fn end(&self) -> Option<f64> {
        self.load.seconds.map(|seconds| self.delay + self.load.ramp_seconds + seconds)
    }

    fn span(&self) -> MeasuredSpan {
        let ns = |seconds: f64| (seconds * 1e9) as u64;
        MeasuredSpan { begin: ns(self.delay + self.load.ramp_seconds), end: self.end().map_or(u64::MAX, ns) }
    }
}

struct LoadThreads {
    threads: Vec<RunningThread>,
    done: Receiver<(usize, JobResult, ThreadUsage)>,
}

struct RunningThread {
    /// Index of its [`RunSpec`].
    spec: usize,
    stop_event: Arc<StopEvent>,
    go: Option<Sender<JobStart>>,
    /// End time in nanoseconds after the epoch.
    end: u64,
    result: Option<(JobResult, ThreadUsage)>,
}

impl LoadThreads {
    /// Starts all threads and waits until each is ready.
    fn spawn(specs: &[RunSpec]) -> Result<Self> {
        let (done_to, done) = mpsc::channel();
        let (ready_to, ready) = mpsc::channel();
        let mut threads = Vec::new();
        for (number, spec) in specs.iter().enumerate() {
            for job in 0..spec.load.jobs.max(1) {
                let failed = |what: &str, e: std::io::Error| Error::new(format!("{}: cannot {what}: {e}", spec.name));
                let stop_event = StopEvent::new().map_err(|e| failed("create an eventfd", e))?;
                let (go, begin) = mpsc::channel();
                let place = threads.len();
                let file = spec.files[job as usize % spec.files.len()].clone();
                let load =
                    load_thread::LoadThread { load: spec.load.clone(), job, file, stop_event: stop_event.clone() };
                let (ready, done) = (ready_to.clone(), done_to.clone());
                let run = move || load.run(&ready, &begin, |result, usage| drop(done.send((place, result, usage))));
                let started = std::thread::Builder::new().name("bench".into()).spawn(run);
                started.map_err(|e| failed("start a thread", e))?;
                threads.push(RunningThread {
                    spec: number,
                    stop_event,
                    go: Some(go),
                    end: spec.span().end,
                    result: None,
                });
            }
        }
        drop(ready_to);
        for _ in &threads {
            let answer = ready.recv().unwrap_or_else(|_| Err("a thread ended before it was ready".into()));
            answer.map_err(|why| Error::new(format!("cannot start the workload: {why}")))?;
        }
        Ok(Self { threads, done })
    }

    /// Starts all threads and returns the epoch of their clock.
    fn begin(&mut self, specs: &[RunSpec]) -> Instant {
        let epoch = Instant::now();
        for thread in &mut self.threads {
            let spec = &specs[thread.spec];
            let start = JobStart { epoch, at: (spec.delay * 1e9) as u64, span: spec.span() };
            if let Some(go) = thread.go.take() {
                // A thread that has ended is later reported as missing.
                let _ = go.send(start);
            }
        }
        epoch
    }

    /// Stops the threads whose time is up. Returns whether those are all.
    fn stop_due(&self, elapsed: u64) -> bool {
        let (due, others): (Vec<&RunningThread>, Vec<_>) =
            self.threads.iter().partition(|thread| thread.end <= elapsed);
        due.iter().for_each(|thread| thread.stop());
        others.is_empty()
    }

    fn stop_all(&self) {
        self.threads.iter().for_each(RunningThread::stop);
    }

    /// Returns the time until the next thread has to be stopped, at most a tick.
    fn next_end(&self, elapsed: u64) -> Duration {
        let ends = self.threads.iter().filter(|thread| !thread.stop_event.is_signalled()).map(|thread| thread.end);
        ends.min().map_or(TICK, |end| Duration::from_nanos(end.saturating_sub(elapsed)).min(TICK))
    }

    /// Waits for a result. Returns whether all threads have ended.
    fn collect(&mut self, wait: Duration) -> bool {
        match self.done.recv_timeout(wait) {
            Ok((place, result, usage)) => self.threads[place].result = Some((result, usage)),
            Err(RecvTimeoutError::Timeout) => {}
            // All threads have ended, some by a panic.
            Err(RecvTimeoutError::Disconnected) => return true,
        }
        self.threads.iter().all(|thread| thread.result.is_some())
    }

    fn finish(self, specs: &[RunSpec]) -> Vec<RunResult> {
        let mut results: Vec<Vec<Option<(JobResult, ThreadUsage)>>> = specs.iter().map(|_| Vec::new()).collect();
        for thread in self.threads {
            results[thread.spec].push(thread.result);
        }
        specs.iter().zip(results).map(|(spec, results)| run_result(spec, results)).collect()
    }
}

impl RunningThread {
    fn stop(&self) {
        if !self.stop_event.is_signalled() {
            self.stop_event.signal();
        }
    }
}

/// Merges the results of a workload's threads; a thread without a result hangs in its request.
fn run_result(spec: &RunSpec, results: Vec<Option<(JobResult, ThreadUsage)>>) -> RunResult {
    let missing = results.iter().filter(|result| result.is_none()).count() as u64;
    let (jobs, usages): (Vec<JobResult>, Vec<ThreadUsage>) = results.into_iter().flatten().unzip();
    let mut stats = RunStats::new(spec.span());
    jobs.iter().for_each(|job| stats.merge(&job.stats));
    let asked = jobs.iter().fold(Traffic::default(), |sum, job| sum.plus(job.asked));
    let seconds = stats.seconds(jobs.iter().map(|job| job.ended).max().unwrap_or(0));
    let [read, write, sync] = stats.flows(seconds, &spec.load);
    let wanted = |flow: RequestStats, wanted: bool| wanted.then_some(flow);
    let run = DiskRun {
        name: spec.name.clone(),
        target: spec.target,
        asked: spec.load.clone(),
        seconds,
        read: wanted(read, spec.load.does_read()),
        write: wanted(write, spec.load.does_write()),
        sync: wanted(sync, spec.load.sync.is_some()),
        series: stats.series(seconds),
        cost: cost(&usages, asked),
        generator: generator(&usages, spec.load.poll),
        failed: jobs.iter().find_map(|job| job.failed.clone()),
        hung: jobs.iter().map(|job| job.hung).sum::<u64>() + missing,
        behind: jobs.iter().map(|job| job.behind).sum(),
    };
    RunResult { run, asked }
}

/// Returns the CPU time of the threads, in total and per request.
pub(crate) fn cost(usages: &[ThreadUsage], asked: Traffic) -> CpuCost {
    let (user, system) = usages.iter().fold((0.0, 0.0), |(user, system), u| (user + u.user, system + u.system));
    let operations = asked.reads + asked.writes + asked.flushes;
    CpuCost {
        thread_seconds: usages.iter().map(|usage| usage.wall).sum(),
        user_seconds: user,
        system_seconds: system,
        per_operation: (operations > 0).then(|| (user + system) / operations as f64),
        context_switches: usages.iter().map(|usage| usage.switches).sum(),
        machine_per_operation: None,
    }
}

/// Returns whether the CPU that generates the load was the limit; unknown for threads that poll, which are always busy.
pub(crate) fn generator(usages: &[ThreadUsage], polls: bool) -> Generator {
    let wanted = |usage: &&ThreadUsage| usage.busy.unwrap_or(0.0) + usage.waited.unwrap_or(0.0);
    let busiest = usages.iter().max_by(|a, b| wanted(a).total_cmp(&wanted(b)));
    let Some(busiest) = busiest else { return Generator::default() };
    Generator { busy: busiest.busy, waited: busiest.waited, was_limit: !polls && wanted(&busiest) >= CPU_BOUND }
}
