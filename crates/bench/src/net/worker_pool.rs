//! One end of a round: a thread per stream, and the calling thread, which samples the streams.

use super::stream_monitor::{StreamMonitor, StreamSamples};
use super::test_stream::{StreamHandle, StreamRole, StreamSide, TestStream, WorkerResult};
use crate::environment::busy_seconds;
use crate::load::since;
use crate::round::{cost, generator};
use socket2::Socket;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use whyslow_documents::bench::{Datagrams, NetEnd, NetLoad, Traffic, Workload};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;
use whyslow_sense::{Root, Sampler};

const INTERVAL: Duration = Duration::from_millis(100);
/// Time that an end keeps sending after its measurement, so that the other end can finish its own.
const MARGIN: Duration = Duration::from_millis(200);
/// Time for streams to end while queues on the path drain.
const GRACE: Duration = Duration::from_secs(5);

/// A load and its open streams.
pub(super) struct LoadStreams {
    pub(super) load: NetLoad,
    pub(super) streams: Vec<Socket>,
}

/// Way in which a sender closes its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseMode {
    /// Discards the contents of buffers and queues, which would take long to drain on a slow path.
    Reset,
    Orderly,
}

pub(super) struct WorkerPool {
    loads: Vec<Arc<NetLoad>>,
    workers: Vec<Worker>,
    over: Arc<AtomicBool>,
    epoch: Instant,
    done: Receiver<(usize, WorkerResult)>,
    close_mode: CloseMode,
}

struct Worker {
    /// Index of its load.
    load: usize,
    stream: StreamHandle,
    result: Option<WorkerResult>,
}

struct MeasuredInterval {
    monitor: StreamMonitor,
    seconds: f64,
    /// Time after which the end of a stream is not a failure.
    end: Instant,
    /// Time of the last sample, in nanoseconds after the epoch.
    ended: u64,
    machine: Option<f64>,
}

impl WorkerPool {
    /// Starts all threads; fails if one cannot be started.
    pub(super) fn start(loads: Vec<LoadStreams>, side: StreamSide, close_mode: CloseMode) -> std::io::Result<Self> {
        let (over, epoch) = (Arc::<AtomicBool>::default(), Instant::now());
        let (done_to, done) = mpsc::channel();
        let mut pool = Self { loads: Vec::new(), workers: Vec::new(), over, epoch, done, close_mode };
        for (number, LoadStreams { load, streams }) in loads.into_iter().enumerate() {
            let load = Arc::new(load);
            let role = StreamRole::new(load.work, side);
            for socket in streams {
                // `shutdown` ends blocking calls; a UDP socket keeps the timeout it was created with.
                let stream = TestStream {
                    socket: Arc::new(socket),
                    load: load.clone(),
                    role,
                    counter: Arc::default(),
                    over: pool.over.clone(),
                    epoch,
                };
                let (done_to, place) = (done_to.clone(), pool.workers.len());
                pool.workers.push(Worker { load: number, stream: stream.handle(), result: None });
                let run = move || drop(done_to.send((place, stream.run())));
                if let Err(e) = thread::Builder::new().name("bench-net".into()).spawn(run) {
                    pool.end(Instant::now());
                    return Err(e);
                }
            }
            pool.loads.push(load);
        }
        Ok(pool)
    }

    /// Runs until the time is up or `stop` returns true; it is called several times a second with the seconds elapsed.
    /// Returns the results of each load at this end.
    pub(super) fn run(mut self, stop: &mut dyn FnMut(f64) -> bool) -> Vec<NetEnd> {
        let longest = |seconds: fn(&NetLoad) -> f64| self.loads.iter().map(|load| seconds(load)).fold(0.0, f64::max);
        let ramp = Duration::from_secs_f64(longest(|load| load.ramp_seconds));
        let seconds = Duration::from_secs_f64(longest(|load| load.seconds));
        self.wait(self.epoch + ramp, stop);
        let measured = self.measure(self.epoch + ramp + seconds, stop);
        let last = Instant::now() + MARGIN;
        if self.is_running() {
            self.wait(last, stop);
        }
        self.end(Instant::now() + GRACE);
        (0..self.loads.len()).map(|load| self.result(load, &measured)).collect()
    }

    /// Samples all streams until `due`.
    fn measure(&mut self, due: Instant, stop: &mut dyn FnMut(f64) -> bool) -> MeasuredInterval {
        let streams = self.workers.iter().map(|worker| worker.stream.clone()).collect();
        let (begun, mut monitor) = (Instant::now(), StreamMonitor::begin(streams));
        let mut sampler = Sampler::of_processors(Root::live());
        let before = sampler.sample();
        let mut at = begun;
        loop {
            at += INTERVAL;
            let stopped = self.wait(at.min(due), stop);
            monitor.sample();
            if stopped || at >= due {
                break;
            }
        }
        let end = Instant::now();
        monitor.finish();
        let seconds = end.duration_since(begun).as_secs_f64();
        let machine = machine_seconds(before, sampler.sample(), seconds);
        // If this thread was late, the other end may rightly have closed before the last sample.
        MeasuredInterval { monitor, seconds, end: end.min(due), ended: since(self.epoch), machine }
    }

    /// Waits until `due`. Returns true before that if it has to stop or no worker is left.
    fn wait(&mut self, due: Instant, stop: &mut dyn FnMut(f64) -> bool) -> bool {
        loop {
            if stop(since(self.epoch) as f64 / 1e9) || !self.is_running() {
                return true;
            }
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            self.collect(left.min(INTERVAL));
        }
    }

    fn collect(&mut self, wait: Duration) {
        match self.done.recv_timeout(wait) {
            Ok((place, result)) => self.workers[place].result = Some(result),
            Err(RecvTimeoutError::Timeout) => {}
            // A worker panicked; its missing result is reported.
            Err(RecvTimeoutError::Disconnected) => thread::sleep(wait.min(INTERVAL)),
        }
    }

    fn is_running(&self) -> bool {
        self.workers.iter().any(|worker| worker.result.is_none())
    }

    /// Ends all streams: senders at once, receivers when no more data arrives, or at `latest`.
    fn end(&mut self, latest: Instant) {
        self.over.store(true, Ordering::Relaxed);
        let sends = |worker: &&Worker| matches!(worker.stream.role, StreamRole::Send | StreamRole::Ask);
        self.workers.iter().filter(sends).for_each(|worker| self.close(&worker.stream));
        while self.is_running() && Instant::now() < latest {
            self.collect(INTERVAL);
        }
        let running = |worker: &&Worker| worker.result.is_none();
        self.workers.iter().filter(running).for_each(|worker| self.close(&worker.stream));
        let closed = Instant::now();
        while self.is_running() && closed.elapsed() < GRACE {
            self.collect(INTERVAL);
        }
    }

    /// Ends every blocking call on a stream. Errors mean that the other end has already closed it.
    fn close(&self, stream: &StreamHandle) {
        if self.close_mode == CloseMode::Reset && stream.role == StreamRole::Send {
            let _ = stream.socket.set_linger(Some(Duration::ZERO));
        }
        let _ = stream.socket.shutdown(Shutdown::Both);
    }

    /// Returns the results of a load at this end.
    fn result(&self, load: usize, measured: &MeasuredInterval) -> NetEnd {
        let workers = self.workers.iter().zip(&measured.monitor.samples).filter(|(worker, _)| worker.load == load);
        let (workers, samples): (Vec<&Worker>, Vec<&StreamSamples>) = workers.unzip();
        let results: Vec<&WorkerResult> = workers.iter().filter_map(|worker| worker.result.as_ref()).collect();
        let usages: Vec<_> = results.iter().map(|result| result.usage).collect();
        let stats = results.iter().filter_map(|result| result.stats.clone()).reduce(|mut sum, stats| {
            sum.merge(&stats);
            sum
        });
        let streams = workers.iter().zip(&samples);
        let mut end = NetEnd {
            seconds: measured.seconds,
            bytes: samples.iter().map(|samples| samples.bytes()).sum(),
            all_bytes: workers.iter().map(|worker| worker.stream.counter.bytes()).sum(),
            datagrams: datagrams(&results),
            streams: streams.map(|(worker, samples)| samples.stream(&worker.stream, measured.seconds)).collect(),
            machine_seconds: measured.machine,
            generator: generator(&usages, false),
            failed: failure(&workers, measured),
            ..NetEnd::default()
        };
        end.series.interval = INTERVAL.as_secs_f64();
        match stats {
            Some(stats) => {
                end.seconds = stats.seconds(measured.ended);
                let [flow, ..] = stats.flows(end.seconds, &Workload::of_blocks(1));
                (end.answers, end.latency) = (flow.operations, Some(flow.latency));
                let series = stats.series(end.seconds);
                (end.series.interval, end.series.answers) = (series.interval, series.reads);
            }
            None => end.series.bytes = StreamMonitor::series(&samples),
        }
        end.cost = cost(&usages, Traffic { reads: end.answers, ..Traffic::default() });
        // The cost includes the ramp, but the answers do not.
        end.cost.per_operation = None;
        end
    }
}

/// Returns the sum over all streams; `None` for TCP.
fn datagrams(results: &[&WorkerResult]) -> Option<Datagrams> {
    results.iter().filter_map(|result| result.datagrams).reduce(|a, b| Datagrams {
        sent: a.sent + b.sent,
        received: a.received + b.received,
        lost: a.lost + b.lost,
        lost_for_buffer: a.lost_for_buffer.zip(b.lost_for_buffer).map(|(a, b)| a + b),
        out_of_order: a.out_of_order + b.out_of_order,
        jitter: a.jitter.max(b.jitter),
    })
}

/// Returns the reason if a stream ended before the time was up.
fn failure(workers: &[&Worker], measured: &MeasuredInterval) -> Option<String> {
    workers.iter().find_map(|worker| match &worker.result {
        None => Some("a thread never ended".to_owned()),
        Some(WorkerResult { ended: (at, Some(why)), .. }) if *at < measured.end => Some(why.clone()),
        Some(_) => None,
    })
}

/// Returns the CPU seconds of the whole machine, scaled to the measured time, which its samples slightly exceed.
fn machine_seconds(before: Snapshot, after: Snapshot, seconds: f64) -> Option<f64> {
    let window = Window::new(vec![before, after]);
    busy_seconds(&window).map(|busy| busy / window.seconds() * seconds)
}
