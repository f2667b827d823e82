//! Load generation. A job keeps requests in flight until it is stopped, and decides which request comes next, when, and
//! what counts.

mod request_stream;
mod run_stats;

pub(crate) use run_stats::{LatencyHistogram, MeasuredSpan, RequestTimes, RunStats};

use crate::buffer_pattern::BufferPattern;
use crate::engine::{Completion, GRACE, IoEngine, IoOp, IoRequest, StopEvent};
use request_stream::RequestStream;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_documents::bench::{SyncPolicy, Traffic, Workload};

/// A job that is ready to run, with filled buffers.
pub(crate) struct LoadJob<E> {
    engine: E,
    stream: RequestStream,
    stop_event: Arc<StopEvent>,
    pattern: BufferPattern,
    sync_at_end: bool,
    slots: usize,
    /// Requests per second, and the phase of this job's requests within an interval.
    rate: Option<(f64, f64)>,
    /// Pause after each request, in nanoseconds.
    pause: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct JobStart {
    /// Zero of the clock shared by all jobs.
    pub(crate) epoch: Instant,
    /// Earliest time of the first request, in nanoseconds after the epoch.
    pub(crate) at: u64,
    pub(crate) span: MeasuredSpan,
}

#[derive(Debug)]
pub(crate) struct JobResult {
    pub(crate) stats: RunStats,
    /// All completed requests, including those of the ramp.
    pub(crate) asked: Traffic,
    pub(crate) failed: Option<String>,
    /// Requests that never completed.
    pub(crate) hung: u64,
    /// Requests that were due but not issued.
    pub(crate) behind: u64,
    /// Time when the job was stopped or done, in nanoseconds after the epoch.
    pub(crate) ended: u64,
}

/// Due times of requests at a fixed rate.
#[derive(Clone, Copy, Debug)]
struct RateSchedule {
    /// Due time of the first request, in nanoseconds after the epoch.
    first: f64,
    interval: f64,
    issued: u64,
}

impl RateSchedule {
    fn due(&self) -> u64 {
        (self.first + self.interval * self.issued as f64) as u64
    }

    /// Returns the number of requests due by `now` but not issued.
    fn behind(&self, now: u64) -> u64 {
        let due = ((now as f64 - self.first) / self.interval).floor() + 1.0;
        (due.max(0.0) as u64).saturating_sub(self.issued)
    }
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    request: IoRequest,
    due: u64,
    issued: u64,
}

const SYNC: IoRequest = IoRequest { action: IoOp::Sync, offset: 0, bytes: 0 };

impl<E: IoEngine> LoadJob<E> {
    /// Creates job number `job` of a workload; the engine has as many slots as the workload's depth.
    pub(crate) fn new(load: &Workload, job: u32, mut engine: E, stop_event: Arc<StopEvent>) -> Self {
        let slots = load.depth.max(1) as usize;
        let pattern = if load.verify { BufferPattern::Offsets } else { BufferPattern::Random };
        if load.does_write() {
            (0..slots).for_each(|slot| pattern.prepare(engine.buffer(slot), load.seed ^ slot as u64));
        }
        // Interleave the requests of several jobs.
        let jobs = f64::from(load.jobs.max(1));
        let rate = load.rate.map(|rate| (rate / jobs, f64::from(job) / jobs));
        let sync_at_end = matches!(load.sync, Some(SyncPolicy { every: None, .. }));
        let (stream, pause) = (RequestStream::new(load, job), (load.pause * 1e9) as u64);
        Self { engine, stream, stop_event, pattern, sync_at_end, slots, rate, pause }
    }

    /// Runs until the stop event, the last request or an error, then waits for requests in flight.
    pub(crate) fn run(self, start: JobStart) -> JobResult {
        let schedule = self.rate.map(|(rate, part)| {
            let interval = 1e9 / rate;
            RateSchedule { first: start.at as f64 + interval * part, interval, issued: 0 }
        });
        let running = RunningJob {
            flights: vec![InFlight { request: SYNC, due: 0, issued: 0 }; self.slots],
            idle: (0..self.slots).rev().collect(),
            schedule,
            start,
            resumes: start.at,
            exhausted: false,
            stats: RunStats::new(start.span),
            asked: Traffic::default(),
            job: self,
        };
        running.run()
    }
}

struct RunningJob<E> {
    job: LoadJob<E>,
    start: JobStart,
    schedule: Option<RateSchedule>,
    flights: Vec<InFlight>,
    idle: Vec<usize>,
    /// End of the current pause.
    resumes: u64,
    /// Whether the stream has no more requests.
    exhausted: bool,
    stats: RunStats,
    asked: Traffic,
}

impl<E: IoEngine> RunningJob<E> {
    fn run(mut self) -> JobResult {
        let outcome = self.generate();
        let stopped = since(self.start.epoch);
        let behind = self.schedule.filter(|_| !self.exhausted).map_or(0, |schedule| schedule.behind(stopped));
        let failed = match outcome {
            Ok(()) => self.finish(),
            Err(e) => {
                // Report the first error, but still reap requests in flight.
                let _ = self.drain();
                Err(e)
            }
        };
        let hung = self.in_flight() as u64;
        if hung > 0 {
            // The kernel may still write to the buffers, so they must never be freed.
            std::mem::forget(self.job.engine);
        }
        let ended = if self.exhausted { self.stats.last() } else { stopped };
        JobResult { stats: self.stats, asked: self.asked, failed: failed.err(), hung, behind, ended }
    }

    fn generate(&mut self) -> Result<(), String> {
        if self.start.at > since(self.start.epoch) {
            self.job.engine.next(Some(self.instant(self.start.at))).map_err(engine_failed)?;
        }
        let mut now = since(self.start.epoch);
        while !self.job.stop_event.is_signalled() {
            let due = self.issue_due(now)?;
            if self.in_flight() == 0 && due.is_none() {
                return Ok(());
            }
            let done = self.job.engine.next(due.map(|due| self.instant(due))).map_err(engine_failed)?;
            now = since(self.start.epoch);
            if let Some(done) = done {
                self.complete(done, now)?;
            }
        }
        Ok(())
    }

    /// Issues all requests that are due. Returns when the next one is due, if a slot is free for it.
    fn issue_due(&mut self, now: u64) -> Result<Option<u64>, String> {
        while !self.exhausted
            && let Some(&slot) = self.idle.last()
        {
            let due = self.schedule.map_or(now, |schedule| schedule.due());
            let earliest = due.max(self.resumes);
            if earliest > now {
                return Ok(Some(earliest));
            }
            match self.job.stream.next() {
                None => self.exhausted = true,
                Some(request) => {
                    self.idle.pop();
                    self.issue(slot, request, due, now)?;
                }
            }
        }
        Ok(None)
    }

    fn issue(&mut self, slot: usize, request: IoRequest, due: u64, now: u64) -> Result<(), String> {
        if let Some(schedule) = &mut self.schedule {
            schedule.issued += 1;
        }
        if request.action == IoOp::Write {
            let block = &mut self.job.engine.buffer(slot)[..request.bytes as usize];
            self.job.pattern.stamp(block, request.offset, now);
        }
        self.flights[slot] = InFlight { request, due, issued: now };
        self.job.engine.submit(slot, request).map_err(engine_failed)
    }

    fn complete(&mut self, done: Completion, now: u64) -> Result<(), String> {
        let InFlight { request, due, issued } = self.flights[done.slot];
        self.idle.push(done.slot);
        self.resumes = now + self.job.pause;
        self.check(done, request)?;
        let asked = &mut self.asked;
        match request.action {
            IoOp::Read => {
                asked.reads += 1;
                asked.read_bytes += u64::from(request.bytes);
            }
            IoOp::Write => {
                asked.writes += 1;
                asked.write_bytes += u64::from(request.bytes);
            }
            IoOp::Sync => asked.flushes += 1,
        }
        self.stats.add(request.action, request.bytes, RequestTimes { due, issued, done: now });
        Ok(())
    }

    fn check(&mut self, done: Completion, request: IoRequest) -> Result<(), String> {
        if done.result < 0 {
            let errno = i32::try_from(-done.result).unwrap_or(libc::EIO);
            return Err(format!("{request}: {}", io::Error::from_raw_os_error(errno)));
        }
        if done.result != i64::from(request.bytes) {
            return Err(format!("{request}: short: only {} bytes transferred", done.result));
        }
        if request.action == IoOp::Read {
            let block = &self.job.engine.buffer(done.slot)[..request.bytes as usize];
            if let Some(at) = self.job.pattern.difference(block, request.offset) {
                let at = request.offset + at as u64;
                return Err(format!("{request}: verify failed: from byte {at} on it is not what was written"));
            }
        }
        Ok(())
    }

    /// Waits for requests in flight, and syncs if the workload ends with a sync.
    fn finish(&mut self) -> Result<(), String> {
        self.drain()?;
        if self.job.sync_at_end && self.in_flight() == 0 {
            let (slot, now) = (self.idle.pop().unwrap_or(0), since(self.start.epoch));
            self.issue(slot, SYNC, now, now)?;
            self.drain()?;
        }
        Ok(())
    }

    /// Waits for requests in flight. Returns the first error.
    fn drain(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + GRACE;
        let mut outcome = Ok(());
        while self.in_flight() > 0 && Instant::now() < deadline {
            if let Some(done) = self.job.engine.next(Some(deadline)).map_err(engine_failed)? {
                outcome = outcome.and(self.complete(done, since(self.start.epoch)));
            }
        }
        outcome
    }

    fn in_flight(&self) -> usize {
        self.flights.len() - self.idle.len()
    }

    fn instant(&self, at: u64) -> Instant {
        self.start.epoch + Duration::from_nanos(at)
    }
}

fn engine_failed(error: io::Error) -> String {
    format!("the I/O engine failed: {error}")
}

/// Returns the nanoseconds since `epoch`.
pub(crate) fn since(epoch: Instant) -> u64 {
    u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a test workload: 4 KiB random reads at depth 1.
#[cfg(test)]
pub(crate) fn sample() -> whyslow_documents::bench::Workload {
    use whyslow_documents::bench::Workload;
    Workload { size: 1 << 20, seconds: Some(1.0), ..Workload::of_blocks(4096) }
}
