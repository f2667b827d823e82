//! How many bytes have to lie there before who receives a stream is woken.
//!
//! A receiver that throws away what comes is asleep again before the next segment is there. To wake it for each is the sender's
//! work where both ends are one machine, and took two fifths of its time at 28 Gbit/s: in a virtual machine the host has to be asked.

use std::time::{Duration, Instant};

/// Wakings a second that are enough.
const ENOUGH: f64 = 10_000.0;
/// What comes in one piece (GRO): a mark below it spares nothing.
const LEAST: usize = 1 << 16;
/// A part of what the kernel lets a receive buffer grow to (tcp_rmem, tcp(7)): the sender is to find room meanwhile.
const MOST: usize = 1 << 19;
/// The rate is looked at whenever so many bytes have come.
const LOOK: usize = 1 << 22;
/// What comes more slowly than a mark was made for is received after so long.
pub(super) const LATE: Duration = Duration::from_millis(10);

/// The low-water mark of a socket (SO_RCVLOWAT, socket(7)) that goes with the rate.
pub(super) struct LowWater {
    since: Instant,
    bytes: usize,
    mark: usize,
}

impl LowWater {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, bytes: 0, mark: 0 }
    }

    /// So many more bytes have come. The mark, where it is to be another; 0 is none.
    pub(super) fn received(&mut self, bytes: usize, now: impl FnOnce() -> Instant) -> Option<usize> {
        self.bytes += bytes;
        if self.bytes < LOOK {
            return None;
        }
        let now = now();
        let rate = self.bytes as f64 / now.duration_since(self.since).as_secs_f64().max(1e-9);
        (self.since, self.bytes) = (now, 0);
        let wanted = (rate / ENOUGH) as usize;
        // By powers of two, or it would be set anew all the time.
        let mark = if wanted < LEAST { 0 } else { wanted.min(MOST).next_power_of_two() };
        (mark != std::mem::replace(&mut self.mark, mark)).then_some(mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_goes_with_the_rate() {
        let mut now = Instant::now();
        let mut water = LowWater::new(now);
        // Half of what it is looked at for, twice, in so many microseconds.
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
