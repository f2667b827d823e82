//! Batches the wake-ups of a stream's receiver.
//!
//! A receiver that discards data is asleep again before the next segment arrives. If both ends are on one machine, the
//! sender spends time waking it for each segment: two fifths of its time at 28 Gbit/s, because the host has to wake a
//! virtual CPU.

use std::time::{Duration, Instant};

/// Target number of wake-ups per second.
const ENOUGH: f64 = 10_000.0;
/// Minimum mark: segments arrive in batches of up to this size (GRO), so a lower mark has no effect.
const LEAST: usize = 1 << 16;
/// Maximum mark: well below the limit of the receive buffer (tcp_rmem, tcp(7)), so that the sender is not blocked.
const MOST: usize = 1 << 19;
/// Bytes between adjustments.
const LOOK: usize = 1 << 22;
/// Timeout of a receive, in case the rate drops.
pub(super) const LATE: Duration = Duration::from_millis(10);

/// Adapts the low-water mark (SO_RCVLOWAT, socket(7)) to the rate.
pub(super) struct LowWater {
    since: Instant,
    bytes: usize,
    mark: usize,
}

impl LowWater {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, bytes: 0, mark: 0 }
    }

    /// Counts received bytes. Returns the new mark if it changes; 0 means no mark.
    pub(super) fn received(&mut self, bytes: usize, now: impl FnOnce() -> Instant) -> Option<usize> {
        self.bytes += bytes;
        if self.bytes < LOOK {
            return None;
        }
        let now = now();
        let rate = self.bytes as f64 / now.duration_since(self.since).as_secs_f64().max(1e-9);
        (self.since, self.bytes) = (now, 0);
        let wanted = (rate / ENOUGH) as usize;
        // Round to a power of two, so that the mark changes rarely.
        let mark = if wanted < LEAST { 0 } else { wanted.min(MOST).next_power_of_two() };
        (mark != std::mem::replace(&mut self.mark, mark)).then_some(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_low_water_mark_follows_the_rate() {
        let mut now = Instant::now();
        let mut water = LowWater::new(now);
        // Receives the bytes of one adjustment in two halves, over this many microseconds.
        let mut came = |micros| {
            let first = water.received(LOOK / 2, || unreachable!());
            now += Duration::from_micros(micros);
            (first, water.received(LOOK / 2, || now))
        };
        assert_eq!(came(33_554), (None, None), "1 Gbit/s: each piece wakes it");
        assert_eq!(came(3_355), (None, Some(1 << 17)), "10 Gbit/s");
        assert_eq!(came(3_400), (None, None), "as before");
        assert_eq!(came(335), (None, Some(MOST)), "100 Gbit/s");
        assert_eq!(came(3_355_443), (None, Some(0)), "10 Mbit/s");
        assert_eq!(came(0), (None, Some(MOST)));
    }
}
