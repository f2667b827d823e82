//! Clock changes between two samples.

use std::time::Duration;

/// Smaller differences are normal: adjtime(2) slews the clock, and the clocks are not read at the same instant.
const SIGNIFICANT: Duration = Duration::from_millis(500);

/// The clocks at one sample, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    /// CLOCK_REALTIME.
    pub(super) wall: i64,
    /// CLOCK_BOOTTIME.
    pub(super) boot: u64,
    /// CLOCK_MONOTONIC, which stops during suspend, since the recording began.
    pub(super) running: u64,
}

/// The time between two samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClockGap {
    /// Samples that were due and not recorded.
    pub(super) missed: u64,
    /// Amount by which the wall clock was set, nanoseconds.
    pub(super) stepped: i64,
    /// Duration for which the machine was suspended, nanoseconds.
    pub(super) suspended: u64,
}

impl Clocks {
    /// Returns the gap from the start of the recording, when the first sample was due, to the first sample.
    pub(super) fn since_start(self, interval: Duration) -> ClockGap {
        ClockGap { missed: self.running / nanoseconds(interval), ..ClockGap::default() }
    }

    /// Returns the gap from `before` to these clocks, with a sample due every `interval`.
    pub(super) fn since(self, before: Self, interval: Duration) -> ClockGap {
        let elapsed = self.boot.saturating_sub(before.boot);
        let interval = nanoseconds(interval);
        let due = elapsed.saturating_add(interval / 2) / interval;
        let stepped = self.wall.saturating_sub(before.wall).saturating_sub_unsigned(elapsed);
        let suspended = elapsed.saturating_sub(self.running.saturating_sub(before.running));
        let significant = |ns: u64| Duration::from_nanos(ns) >= SIGNIFICANT;
        ClockGap {
            missed: due.saturating_sub(1),
            stepped: if significant(stepped.unsigned_abs()) { stepped } else { 0 },
            suspended: if significant(suspended) { suspended } else { 0 },
        }
    }
}

/// Returns the interval in nanoseconds, at least one.
fn nanoseconds(interval: Duration) -> u64 {
    u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1)
}

impl ClockGap {
    /// Describes the clock changes, if there were any.
    pub(super) fn in_words(self) -> Option<String> {
        let mut words = Vec::new();
        if self.stepped != 0 {
            words.push(format!("the wall clock was set by {:+.1} s", self.stepped as f64 / 1e9));
        }
        if self.suspended != 0 {
            words.push(format!("the machine was suspended for {:.1} s", self.suspended as f64 / 1e9));
        }
        (!words.is_empty()).then(|| words.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn after(wall: i64, boot: u64, running: u64) -> ClockGap {
        let start = Clocks { wall: 50_000 * S as i64, boot: 100 * S, running: 90 * S };
        let now = Clocks {
            wall: start.wall + wall * S as i64,
            boot: start.boot + boot * S,
            running: start.running + running * S,
        };
        now.since(start, Duration::from_secs(1))
    }

    #[test]
    fn a_regular_second_is_nothing_special() {
        assert_eq!(after(1, 1, 1), ClockGap::default());
        assert_eq!(after(1, 1, 1).in_words(), None);
    }

    #[test]
    fn samples_missed_before_the_first_are_counted() {
        let first = |running| Clocks { wall: 0, boot: 0, running }.since_start(Duration::from_secs(1));
        assert_eq!([first(0), first(S - 1), first(2 * S)].map(|gap| gap.missed), [0, 0, 2]);
    }

    #[test]
    fn missed_samples_are_counted() {
        assert_eq!(after(5, 5, 5).missed, 4);
    }

    #[test]
    fn clock_steps_and_suspends_are_distinguished() {
        assert_eq!(after(-3599, 1, 1).in_words().as_deref(), Some("the wall clock was set by -3600.0 s"));
        assert_eq!(after(3601, 1, 1).stepped, 3600 * S as i64);
        let slept = after(3600, 3600, 1);
        assert_eq!((slept.suspended, slept.stepped, slept.missed), (3599 * S, 0, 3599));
        assert_eq!(slept.in_words().as_deref(), Some("the machine was suspended for 3599.0 s"));
    }

    #[test]
    fn extreme_clocks_do_not_panic() {
        let odd = Clocks { wall: i64::MIN, boot: u64::MAX, running: 0 };
        let other = Clocks { wall: i64::MAX, boot: 0, running: u64::MAX };
        for (a, b) in [(odd, other), (other, odd)] {
            let _ = a.since(b, Duration::ZERO).in_words();
        }
    }
}
