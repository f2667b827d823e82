//! One job: keeps requests in flight until it is told to end.

use super::stream::{Action, Request, Stream};
use super::tally::{Span, Tally, Times};
use crate::content::Content;
use crate::engine::{Bell, Completion, Engine, GRACE};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_model::bench::{Sync, Traffic, Workload};

/// A job about to run: its buffers are filled.
pub(crate) struct Job<E> {
    engine: E,
    stream: Stream,
    bell: Arc<Bell>,
    content: Content,
    sync_at_end: bool,
    slots: usize,
    /// How many requests a second, and what part of the time from one to the next this job comes later than the first.
    pace: Option<(f64, f64)>,
    /// How long it pauses after each request, nanoseconds.
    pause: u64,
}

/// When a job begins, and what of its time is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// Where the clock that all jobs share has its zero.
    pub(crate) epoch: Instant,
    /// When the first request may be made, nanoseconds after that.
    pub(crate) at: u64,
    /// What is measured.
    pub(crate) span: Span,
}

/// What a job did.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    /// All requests that came back, those outside the time measured included.
    pub(crate) asked: Traffic,
    /// What ended it before its time.
    pub(crate) failed: Option<String>,
    /// Requests that did not come back.
    pub(crate) hung: u64,
    /// Requests that were due and had not been made when it ended.
    pub(crate) behind: u64,
    /// When it was told to end, or had done all, nanoseconds after the epoch.
    pub(crate) ended: u64,
    /// How long the thread looked for completions where it could as well have slept.
    pub(crate) looked: Duration,
}

/// When requests are due, where a rate is asked for.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// When the first is due, nanoseconds after the epoch.
    first: f64,
    /// Nanoseconds from one to the next.
    every: f64,
    /// How many were made.
    made: u64,
}

impl Pace {
    fn due(&self) -> u64 {
        (self.first + self.every * self.made as f64) as u64
    }

    /// How many are due by `now` and not made.
    fn behind(&self, now: u64) -> u64 {
        let due = ((now as f64 - self.first) / self.every).floor() + 1.0;
        (due.max(0.0) as u64).saturating_sub(self.made)
    }
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Flight {
    request: Request,
    due: u64,
    made: u64,
}

impl<E: Engine> Job<E> {
    /// Job number `job` of a workload, on an engine with as many slots as the workload is deep.
    pub(crate) fn new(load: &Workload, job: u32, mut engine: E, bell: Arc<Bell>) -> Self {
        let slots = load.depth.max(1) as usize;
        let content = if load.verify { Content::Offsets } else { Content::Random };
        if load.does_write() {
            (0..slots).for_each(|slot| content.prepare(engine.buffer(slot), load.seed ^ slot as u64));
        }
        // Requests of several jobs fall between those of the others.
        let jobs = f64::from(load.jobs.max(1));
        let pace = load.rate.map(|rate| (rate / jobs, f64::from(job) / jobs));
        let sync_at_end = matches!(load.sync, Some(Sync { every: None, .. }));
        Self {
            engine,
            stream: Stream::new(load, job),
            bell,
            content,
            sync_at_end,
            slots,
            pace,
            pause: (load.pause * 1e9) as u64,
        }
    }

    /// Makes its load until the bell rings, all is done or something fails; then waits for what is in flight.
    pub(crate) fn run(self, start: Start) -> Outcome {
        let nothing = Flight { request: Request { action: Action::Sync, offset: 0, bytes: 0 }, due: 0, made: 0 };
        let pace = self.pace.map(|(rate, part)| {
            let every = 1e9 / rate;
            Pace { first: start.at as f64 + every * part, every, made: 0 }
        });
        let running = Running {
            flights: vec![nothing; self.slots],
            idle: (0..self.slots).rev().collect(),
            pace,
            start,
            resumes: start.at,
            exhausted: false,
            tally: Tally::new(start.span),
            asked: Traffic::default(),
            job: self,
        };
        running.run()
    }
}

/// A job that runs.
struct Running<E> {
    job: Job<E>,
    start: Start,
    pace: Option<Pace>,
    flights: Vec<Flight>,
    idle: Vec<usize>,
    /// Until when it pauses.
    resumes: u64,
    /// Whether all bytes are asked for.
    exhausted: bool,
    tally: Tally,
    asked: Traffic,
}

impl<E: Engine> Running<E> {
    fn run(mut self) -> Outcome {
        let made = self.make_load();
        let told = since(self.start.epoch);
        let behind = self.pace.filter(|_| !self.exhausted).map_or(0, |pace| pace.behind(told));
        let failed = match made {
            Ok(()) => self.finish(),
            Err(e) => {
                // What is in flight has to come back, however it went; the first error tells more than another.
                let _ = self.drain();
                Err(e)
            }
        };
        let (hung, looked) = (self.in_flight() as u64, self.job.engine.looked());
        if hung > 0 {
            // The kernel may yet write to its buffers: they are left to it.
            std::mem::forget(self.job.engine);
        }
        let ended = if self.exhausted { self.tally.last() } else { told };
        Outcome { tally: self.tally, asked: self.asked, failed: failed.err(), hung, behind, ended, looked }
    }

    fn make_load(&mut self) -> Result<(), String> {
        if self.start.at > since(self.start.epoch) {
            self.job.engine.next(Some(self.instant(self.start.at))).map_err(broken)?;
        }
        let mut now = since(self.start.epoch);
        while !self.job.bell.is_rung() {
            let due = self.fill(now)?;
            if self.in_flight() == 0 && due.is_none() {
                return Ok(());
            }
            let done = self.job.engine.next(due.map(|due| self.instant(due))).map_err(broken)?;
            now = since(self.start.epoch);
            if let Some(done) = done {
                self.complete(done, now)?;
            }
        }
        Ok(())
    }

    /// Makes all requests that may be made now. When the next is due, where one could be made.
    fn fill(&mut self, now: u64) -> Result<Option<u64>, String> {
        while !self.exhausted
            && let Some(&slot) = self.idle.last()
        {
            let due = self.pace.map_or(now, |pace| pace.due());
            let may = due.max(self.resumes);
            if may > now {
                return Ok(Some(may));
            }
            match self.job.stream.next() {
                None => self.exhausted = true,
                Some(request) => {
                    self.idle.pop();
                    self.make(slot, request, due, now)?;
                }
            }
        }
        Ok(None)
    }

    fn make(&mut self, slot: usize, request: Request, due: u64, now: u64) -> Result<(), String> {
        if let Some(pace) = &mut self.pace {
            pace.made += 1;
        }
        if request.action == Action::Write {
            let block = &mut self.job.engine.buffer(slot)[..request.bytes as usize];
            self.job.content.stamp(block, request.offset, now);
        }
        self.flights[slot] = Flight { request, due, made: now };
        self.job.engine.submit(slot, request).map_err(broken)
    }

    fn complete(&mut self, done: Completion, now: u64) -> Result<(), String> {
        let Flight { request, due, made } = self.flights[done.slot];
        self.idle.push(done.slot);
        self.resumes = now + self.job.pause;
        self.check(done, request)?;
        let asked = &mut self.asked;
        match request.action {
            Action::Read => {
                asked.reads += 1;
                asked.read_bytes += u64::from(request.bytes);
            }
            Action::Write => {
                asked.writes += 1;
                asked.write_bytes += u64::from(request.bytes);
            }
            Action::Sync => asked.flushes += 1,
        }
        self.tally.add(request.action, request.bytes, Times { due, made, done: now });
        Ok(())
    }

    /// Whether a request did what it should.
    fn check(&mut self, done: Completion, request: Request) -> Result<(), String> {
        if done.result < 0 {
            let number = i32::try_from(-done.result).unwrap_or(libc::EIO);
            return Err(format!("{request}: {}", io::Error::from_raw_os_error(number)));
        }
        if done.result != i64::from(request.bytes) {
            return Err(format!("{request}: only {} bytes came", done.result));
        }
        if request.action == Action::Read {
            let block = &self.job.engine.buffer(done.slot)[..request.bytes as usize];
            if let Some(at) = self.job.content.difference(block, request.offset) {
                let at = request.offset + at as u64;
                return Err(format!("{request}: from byte {at} on it is not what was written there"));
            }
        }
        Ok(())
    }

    /// Waits for what is in flight, as long as can be, and syncs where that was asked for.
    fn finish(&mut self) -> Result<(), String> {
        self.drain()?;
        if self.job.sync_at_end && self.in_flight() == 0 {
            let (slot, now) = (self.idle.pop().unwrap_or(0), since(self.start.epoch));
            self.make(slot, Request { action: Action::Sync, offset: 0, bytes: 0 }, now, now)?;
            self.drain()?;
        }
        Ok(())
    }

    /// The first error of what was in flight; all of it is waited for.
    fn drain(&mut self) -> Result<(), String> {
        let patience = Instant::now() + GRACE;
        let mut outcome = Ok(());
        while self.in_flight() > 0 && Instant::now() < patience {
            if let Some(done) = self.job.engine.next(Some(patience)).map_err(broken)? {
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

fn broken(error: io::Error) -> String {
    format!("the kernel takes no more requests: {error}")
}

/// Nanoseconds since `epoch`; 584 years are the most there is room for.
pub(crate) fn since(epoch: Instant) -> u64 {
    u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
