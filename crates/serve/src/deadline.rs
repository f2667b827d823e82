//! Time limit for a connection.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A deadline that moves as the connection makes progress.
pub(crate) struct Deadline(Mutex<Instant>);

impl Deadline {
    pub(crate) fn within(time: Duration) -> Self {
        Self(Mutex::new(Instant::now() + time))
    }

    /// Sets the deadline, counted from now.
    pub(crate) fn set(&self, time: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + time;
    }

    fn at(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for `work` until the deadline has passed.
    pub(crate) async fn limit(&self, work: impl Future) {
        let mut work = pin!(work);
        loop {
            let due = self.at();
            if timeout_at(due, work.as_mut()).await.is_ok() || self.at() <= due {
                return;
            }
        }
    }
}
