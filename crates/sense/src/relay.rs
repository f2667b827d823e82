//! How the thread that reads hands over what it has read.
//!
//! The sampler is woken once, when all is read or nothing more comes: to wake it for each source would cost more than most
//! sources do.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use whyslow_model::snapshot::Snapshot;

/// Between the thread that reads and the one that waits for it.
pub(crate) struct Relay {
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    gathered: Snapshot,
    /// Parts added.
    count: usize,
    /// When the last was added, or the reading began.
    last: Instant,
    ended: bool,
    abandoned: bool,
}

/// What came of a reading.
pub(crate) struct Relayed {
    /// All parts.
    pub(crate) gathered: Snapshot,
    /// How many they were; the next one, where not all came, is waited for in vain.
    pub(crate) count: usize,
}

impl Relay {
    /// For a reading that begins now.
    pub(crate) fn new() -> Self {
        let state =
            State { gathered: Snapshot::default(), count: 0, last: Instant::now(), ended: false, abandoned: false };
        Self { state: Mutex::new(state), ended: Condvar::new() }
    }

    /// Adds a part. False where nobody waits for it any more.
    pub(crate) fn add(&self, part: Snapshot) -> bool {
        let mut state = self.lock();
        if !state.abandoned {
            state.gathered.absorb(part);
            state.count += 1;
            state.last = Instant::now();
        }
        !state.abandoned
    }

    /// All parts were added.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
        self.ended.notify_one();
    }

    /// Waits until all parts were added, or until none was for the time of `patience`; what is added later is lost.
    pub(crate) fn wait(&self, patience: Duration) -> Relayed {
        let mut state = self.lock();
        while !state.ended && state.last.elapsed() < patience {
            let left = patience.saturating_sub(state.last.elapsed());
            state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.abandoned = true;
        Relayed { gathered: std::mem::take(&mut state.gathered), count: state.count }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
