//! Takes samples for days: in one thread, and in another if that one hangs.

use crate::interrupt::Interrupt;
use crate::options::next_multiple;
use crate::output::Failure;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use whyslow_model::snapshot::Snapshot;
use whyslow_sense::Sampler;
use whyslow_sense::supervisor::{Heartbeat, run_supervised};

/// Time without an answer after which a source is abandoned, together with its sample.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Takes samples at an interval, and passes each on with the time when it was begun.
pub struct SamplingLoop<E> {
    /// Each thread takes the sampler, and leaves a copy for the next one.
    sampler: Mutex<Sampler>,
    interval: Duration,
    start: Instant,
    time: Option<Duration>,
    each: E,
}

impl<E: Fn(Snapshot, Instant) -> bool + Send + Sync + 'static> SamplingLoop<E> {
    /// Creates a loop that begins now, and ends after a time or when `each` returns false.
    pub fn new(sampler: Sampler, interval: Duration, time: Option<Duration>, each: E) -> Self {
        Self { sampler: Mutex::new(sampler), interval, start: Instant::now(), time, each }
    }

    /// Runs until it ends or a signal arrives.
    ///
    /// # Errors
    /// Fails if the first thread cannot be started.
    pub fn run_until(self, interrupt: &Interrupt) -> Result<(), Failure> {
        run_supervised(TIMEOUT, interrupt.as_fd(), move |heartbeat| self.run(heartbeat))
            .map_err(|e| Failure::usage(format!("cannot start sampling: {e}")))?;
        Ok(())
    }

    /// Takes samples until the time is up, or another thread has taken over.
    fn run(&self, heartbeat: &Heartbeat) {
        let mut sampler = {
            let mut left = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
            let copy = left.clone();
            std::mem::replace(&mut *left, copy)
        };
        let end = self.time.map(|time| self.start + time);
        let mut due = self.start;
        while heartbeat.sleep_until(due) {
            let begun = Instant::now();
            let Some(sample) = sampler.sample_here(|| heartbeat.beat()) else { return };
            if !(self.each)(sample, begun) || end.is_some_and(|end| due >= end) {
                return;
            }
            due = self.start + next_multiple(self.interval, self.start.elapsed());
            due = end.map_or(due, |end| due.min(end));
        }
    }
}
