//! Limits the number of concurrent expensive requests, each of which keeps a CPU busy.

use crate::ApiError;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of concurrent requests, and of waiting ones; more would delay quick answers.
const MOST_INSIDE: usize = 2;
const MOST_WAITING: usize = 3;
/// Maximum time to wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// Counts the requests that run and that wait.
#[derive(Debug, Default)]
pub struct Gate {
    counts: Mutex<Counts>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Counts {
    inside: usize,
    waiting: usize,
}

/// A slot, released when this is dropped.
#[derive(Debug)]
pub struct Visit<'g>(&'g Gate);

impl Gate {
    /// Waits for a slot.
    ///
    /// # Errors
    /// Fails if too many requests wait already, or if it takes too long.
    pub fn enter(&self) -> Result<Visit<'_>, ApiError> {
        let busy = || ApiError::Busy("too much is being read at the moment; try again in a few seconds".into());
        let mut counts = self.counts();
        if counts.inside >= MOST_INSIDE {
            if counts.waiting >= MOST_WAITING {
                return Err(busy());
            }
            counts.waiting += 1;
            let is_full = |counts: &mut Counts| counts.inside >= MOST_INSIDE;
            counts = self.left.wait_timeout_while(counts, PATIENCE, is_full).unwrap_or_else(PoisonError::into_inner).0;
            counts.waiting -= 1;
            if counts.inside >= MOST_INSIDE {
                return Err(busy());
            }
        }
        counts.inside += 1;
        Ok(Visit(self))
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.0.counts().inside -= 1;
        self.0.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_inside_some_wait_and_the_rest_is_sent_away() {
        let gate = Gate::default();
        let inside: Vec<_> = (0..MOST_INSIDE).map(|_| gate.enter().unwrap()).collect();
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..MOST_WAITING).map(|_| scope.spawn(|| gate.enter().map(drop))).collect();
            while gate.counts().waiting < MOST_WAITING {
                std::thread::yield_now();
            }
            assert!(matches!(gate.enter(), Err(ApiError::Busy(_))));
            drop(inside);
            assert!(waiting.into_iter().all(|one| one.join().unwrap().is_ok()));
        });
        assert!(gate.enter().is_ok());
    }
}
