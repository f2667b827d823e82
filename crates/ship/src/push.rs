//! Sends batches to a receiver over HTTP, in order, one at a time.
//!
//! An unreachable receiver must cost neither memory nor time here: batches wait in a bounded queue, the oldest are dropped, and
//! attempts become less frequent. Failures are counted, and logged once.

mod endpoint;

pub use endpoint::{Credentials, Endpoint, EndpointError};

use endpoint::{Outcome, Sender};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use whyslow_store::LogFn;

/// Maximum number of queued batches: an hour, at one every fifteen seconds.
const MOST_WAITING: usize = 240;
/// Maximum size of the queue, in bytes.
const MOST_BYTES: usize = 8 << 20;
/// Delay after the first failure. It doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum delay. Up to half of it is skipped at random, so that not all hosts contact a receiver at once when it is back.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Maximum time to send the rest of the queue at exit.
const END_WITHIN: Duration = Duration::from_secs(3);

/// Counters of batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushCounts {
    /// Accepted batches.
    pub sent: u64,
    /// Failed attempts.
    pub failures: u64,
    /// Dropped batches.
    pub dropped: u64,
    /// Queued batches.
    pub waiting: u64,
}

/// A batch for a path below the endpoint's address.
struct Batch {
    path: &'static str,
    body: Vec<u8>,
}

/// Sends batches in its own thread.
pub struct Pusher {
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Batch>,
    bytes: usize,
    counts: PushCounts,
    /// Deadline for the rest of the queue; set at exit.
    ends: Option<Instant>,
}

impl Pusher {
    /// Starts sending to an endpoint. `what` names it in messages: `remote write`.
    ///
    /// # Errors
    /// Fails if the thread cannot be started.
    pub fn start(what: &'static str, endpoint: Endpoint, log: LogFn) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let worker = Worker { queue: queue.clone(), sender: Sender::new(endpoint), what, log, failures: 0 };
        let thread = std::thread::Builder::new().name("push".into()).spawn(move || worker.run())?;
        Ok(Self { queue, thread: Some(thread) })
    }

    /// Queues a batch, to be sent after those before it. Never blocks.
    pub fn push(&self, path: &'static str, body: Vec<u8>) {
        let mut state = self.queue.lock();
        state.bytes += body.len();
        state.waiting.push_back(Batch { path, body });
        while state.waiting.len() > MOST_WAITING || state.bytes > MOST_BYTES {
            let Some(oldest) = state.waiting.pop_front() else { break };
            state.bytes -= oldest.body.len();
            state.counts.dropped += 1;
        }
        self.queue.changed.notify_one();
    }

    /// Returns the counters so far.
    pub fn counts(&self) -> PushCounts {
        let state = self.queue.lock();
        PushCounts { waiting: state.waiting.len() as u64, ..state.counts }
    }
}

/// Sends the queue within a few seconds; drops the rest.
impl Drop for Pusher {
    fn drop(&mut self) {
        self.queue.lock().ends = Some(Instant::now() + END_WITHIN);
        self.queue.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the oldest batch from the queue. Waits for one; returns `None` at exit.
    fn take(&self) -> Option<Batch> {
        let mut state = self.lock();
        loop {
            if state.ends.is_some_and(|ends| Instant::now() >= ends) {
                return None;
            }
            if let Some(batch) = state.waiting.pop_front() {
                state.bytes -= batch.body.len();
                return Some(batch);
            }
            if state.ends.is_some() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Puts a batch back, unless newer ones have filled the queue.
    fn put_back(&self, batch: Batch) {
        let mut state = self.lock();
        if state.waiting.len() < MOST_WAITING && state.bytes + batch.body.len() <= MOST_BYTES {
            state.bytes += batch.body.len();
            state.waiting.push_front(batch);
        } else {
            state.counts.dropped += 1;
        }
    }

    /// Sleeps, but not beyond the start of the exit. Returns false if the program is exiting.
    fn pause(&self, length: Duration) -> bool {
        let wake = Instant::now() + length;
        let mut state = self.lock();
        loop {
            let left = wake.saturating_duration_since(Instant::now());
            if state.ends.is_some() || left.is_zero() {
                return state.ends.is_none();
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

struct Worker {
    queue: Arc<Queue>,
    sender: Sender,
    what: &'static str,
    log: LogFn,
    /// Number of failed attempts in a row.
    failures: u32,
}

impl Worker {
    fn run(mut self) {
        while let Some(batch) = self.queue.take() {
            match self.sender.send(batch.path, &batch.body) {
                Outcome::Accepted { complaint } => {
                    self.queue.lock().counts.sent += 1;
                    match complaint {
                        Some(complaint) => self.failed(&complaint),
                        None => self.succeeded(),
                    }
                }
                Outcome::Refused(why) => {
                    self.queue.lock().counts.dropped += 1;
                    self.failed(&why);
                }
                Outcome::Later { why, after } => {
                    self.failed(&why);
                    self.queue.put_back(batch);
                    if !self.queue.pause(after.map_or_else(|| pause(self.failures), |after| after.min(LONGEST_PAUSE))) {
                        return;
                    }
                }
            }
        }
    }

    fn failed(&mut self, why: &str) {
        self.queue.lock().counts.failures += 1;
        self.failures += 1;
        if self.failures == 1 {
            (self.log)(&format!("{} to {} fails: {why}", self.what, self.sender.address()));
        }
    }

    fn succeeded(&mut self) {
        if self.failures > 0 {
            let dropped = self.queue.lock().counts.dropped;
            let attempts = self.failures;
            let (what, address) = (self.what, self.sender.address());
            (self.log)(&format!(
                "{what} to {address} works again after {attempts} failures; batches given up so far: {dropped}"
            ));
        }
        self.failures = 0;
    }
}

/// Returns the delay after a number of failures: at random between half of a doubling time and all of it.
fn pause(failures: u32) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_PAUSE);
    // Without random numbers, the full delay.
    let random = getrandom::u32().map_or(1.0, |random| f64::from(random) / f64::from(u32::MAX));
    doubled.mul_f64(0.5 + random / 2.0)
}

#[cfg(test)]
mod tests;
