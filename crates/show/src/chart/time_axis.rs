//! The time axis: round ticks in local time, or relative to the start.

use super::tick;
use crate::clock::ZonedClock;
use whyslow_model::human;

/// Maximum number of ticks.
const TICKS: f64 = 8.0;
const MINUTE: f64 = 60.0;
const DAY: f64 = 86_400.0;
/// Distances between ticks, seconds; beyond them, whole days.
const STEPS: [f64; 18] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 10_800.0, 21_600.0,
    43_200.0,
];

/// The times of the axis, in seconds since 1970, or since the start.
pub(super) struct TimeAxis {
    from: f64,
    to: f64,
    clock: Option<ZonedClock>,
}

impl TimeAxis {
    pub(super) fn new(times: &[f64], is_elapsed: bool) -> Self {
        let from = times.first().copied().unwrap_or(0.0);
        let to = times.last().copied().unwrap_or(from);
        let clock = (!is_elapsed).then(ZonedClock::local);
        // A single reading is drawn in the middle of a second.
        if to > from { Self { from, to, clock } } else { Self { from: from - 0.5, to: from + 0.5, clock } }
    }

    /// Returns the position of a time: 0 at the left, 1 at the right.
    pub(super) fn share(&self, time: f64) -> f64 {
        (time - self.from) / (self.to - self.from)
    }

    /// Returns the ticks with their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let least = (self.to - self.from) / TICKS;
        let step = STEPS.into_iter().find(|step| *step >= least).unwrap_or((least / DAY).ceil() * DAY);
        // Round in local time.
        let offset = self.clock.as_ref().map_or(0.0, |clock| clock.offset(self.from));
        let first = ((self.from + offset) / step).ceil();
        let ticks = (0..).map(|at| (first + f64::from(at)) * step - offset).take_while(|time| *time <= self.to);
        ticks.take(2 * TICKS as usize).map(|time| (time, self.label(time, step))).collect()
    }

    fn label(&self, time: f64, step: f64) -> String {
        let Some(clock) = &self.clock else { return tick(time, "s") };
        clock.format_seconds(
            time,
            if step >= DAY {
                "%m-%d"
            } else if step >= MINUTE {
                "%H:%M"
            } else {
                "%H:%M:%S"
            },
        )
    }

    /// Returns the period in words: date, times and zone.
    pub(super) fn period(&self) -> String {
        let Some(clock) = &self.clock else {
            return format!("{} from the first reading", human::quantity(self.to - self.from, "s"));
        };
        let days = [self.from, self.to].map(|time| clock.format_seconds(time, "%Y-%m-%d"));
        let end = if days[0] == days[1] { "%H:%M:%S %Z" } else { "%Y-%m-%d %H:%M:%S %Z" };
        let start = clock.format_seconds(self.from, "%Y-%m-%d %H:%M:%S");
        format!("{start}–{}", clock.format_seconds(self.to, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_times_begin_at_zero() {
        let axis = TimeAxis::new(&[0.0, 25.0], true);
        let labels: Vec<String> = axis.ticks().into_iter().map(|(_, label)| label).collect();
        assert_eq!(labels, ["0 s", "5 s", "10 s", "15 s", "20 s", "25 s"]);
        assert_eq!((axis.share(5.0), axis.period().as_str()), (0.2, "25 s from the first reading"));
    }

    #[test]
    fn ticks_are_at_round_times() {
        let axis =
            TimeAxis { clock: Some(ZonedClock::new(true)), ..TimeAxis::new(&[1_795_279_410.0, 1_795_283_010.0], true) };
        // 2026-11-21 16:43:30 UTC, and an hour later.
        let ticks = axis.ticks();
        assert_eq!(ticks[0], (1_795_279_800.0, "16:50".to_owned()));
        assert_eq!((ticks.len(), ticks[5].1.as_str()), (6, "17:40"));
        assert_eq!(axis.period(), "2026-11-21 16:43:30–17:43:30 UTC");
    }

    #[test]
    fn one_time_is_in_the_middle() {
        assert_eq!(TimeAxis::new(&[7.0], true).share(7.0), 0.5);
        assert_eq!(TimeAxis::new(&[], true).share(0.0), 0.5);
    }
}
