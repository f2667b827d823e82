//! How long a connection may last.

use std::future::Future;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A time that moves as the connection gets on.
pub(crate) struct Deadline(Mutex<Instant>);

impl Deadline {
    pub(crate) fn within(time: Duration) -> Self {
        Self(Mutex::new(Instant::now() + time))
    }

    /// Sets it anew, from now.
    pub(crate) fn set(&self, time: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + time;
    }

    fn at(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something, as long as the deadline has not passed.
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
