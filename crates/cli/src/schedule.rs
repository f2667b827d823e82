//! When the next sample is due.

use std::time::Duration;

/// The first multiple of `interval` after what has passed. It is computed from the start, so that delays do not add up;
/// times that passed while a sample was taken are skipped, not caught up with.
pub fn next_multiple(interval: Duration, passed: Duration) -> Duration {
    let done = passed.as_nanos() / interval.as_nanos().max(1);
    interval.saturating_mul(u32::try_from(done + 1).unwrap_or(u32::MAX))
}
