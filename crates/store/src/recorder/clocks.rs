//! What befell the clocks between two samples.

use std::time::Duration;

/// Differences below this are the clocks' own: adjtime(2) slews, and the three are not read at one instant.
const NOTABLE: Duration = Duration::from_millis(500);

/// The clocks at one sample, nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    /// CLOCK_REALTIME.
    pub(super) wall: i64,
    /// CLOCK_BOOTTIME.
    pub(super) boot: u64,
    /// CLOCK_MONOTONIC, which stands still while the machine is suspended; 0 where the recording began.
    pub(super) running: u64,
}

/// What the time between two samples was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Between {
    /// Samples that were due and were not kept.
    pub(super) missed: u64,
    /// By how much somebody set the wall clock, nanoseconds; zero where nobody did.
    pub(super) stepped: i64,
    /// How long the machine was suspended, nanoseconds; zero where it was not.
    pub(super) suspended: u64,
}

impl Clocks {
    /// What was between the beginning of the recording, when the first sample was due, and this, the first there is.
    pub(super) fn since_the_beginning(self, interval: Duration) -> Between {
        Between { missed: self.running / nanoseconds(interval), ..Between::default() }
    }

    /// What was between `before` and this, where a sample was due every `interval`.
    pub(super) fn since(self, before: Self, interval: Duration) -> Between {
        let elapsed = self.boot.saturating_sub(before.boot);
        let interval = nanoseconds(interval);
        let due = elapsed.saturating_add(interval / 2) / interval;
        let stepped = self.wall.saturating_sub(before.wall).saturating_sub_unsigned(elapsed);
        let suspended = elapsed.saturating_sub(self.running.saturating_sub(before.running));
        let notable = |ns: u64| Duration::from_nanos(ns) >= NOTABLE;
        Between {
            missed: due.saturating_sub(1),
            stepped: if notable(stepped.unsigned_abs()) { stepped } else { 0 },
            suspended: if notable(suspended) { suspended } else { 0 },
        }
    }
}

/// At least one.
fn nanoseconds(interval: Duration) -> u64 {
    u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX).max(1)
}

impl Between {
    /// The same in words; `None` where nothing befell them.
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

    fn after(wall: i64, boot: u64, running: u64) -> Between {
        let start = Clocks { wall: 50_000 * S as i64, boot: 100 * S, running: 90 * S };
        let now = Clocks {
            wall: start.wall + wall * S as i64,
            boot: start.boot + boot * S,
            running: start.running + running * S,
        };
        now.since(start, Duration::from_secs(1))
    }

    #[test]
    fn a_second_is_a_second() {
        assert_eq!(after(1, 1, 1), Between::default());
        assert_eq!(after(1, 1, 1).in_words(), None);
    }

    #[test]
    fn what_was_missed_before_the_first_is_counted() {
        let first = |running| Clocks { wall: 0, boot: 0, running }.since_the_beginning(Duration::from_secs(1));
        assert_eq!([first(0), first(S - 1), first(2 * S)].map(|between| between.missed), [0, 0, 2]);
    }

    #[test]
    fn what_was_missed_is_counted() {
        assert_eq!(after(5, 5, 5).missed, 4);
    }

    #[test]
    fn steps_in_both_directions_are_told_from_suspends() {
        assert_eq!(after(-3599, 1, 1).in_words().as_deref(), Some("the wall clock was set by -3600.0 s"));
        assert_eq!(after(3601, 1, 1).stepped, 3600 * S as i64);
        let slept = after(3600, 3600, 1);
        assert_eq!((slept.suspended, slept.stepped, slept.missed), (3599 * S, 0, 3599));
        assert_eq!(slept.in_words().as_deref(), Some("the machine was suspended for 3599.0 s"));
    }

    #[test]
    fn no_clock_makes_it_panic() {
        let odd = Clocks { wall: i64::MIN, boot: u64::MAX, running: 0 };
        let other = Clocks { wall: i64::MAX, boot: 0, running: u64::MAX };
        for (a, b) in [(odd, other), (other, odd)] {
            let _ = a.since(b, Duration::ZERO).in_words();
        }
    }
}
