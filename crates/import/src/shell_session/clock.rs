//! Times printed between the outputs of a session.

use crate::clock::{DAY, PrintedTime};
use crate::timeline::ReportClock;

/// Last printed time, and the clock behind all of them.
#[derive(Clone, Debug, Default)]
pub struct SessionClock {
    at: PrintedTime,
    clock: ReportClock,
    was_set: bool,
    /// Seconds that a command line with several steps has waited since `at`.
    waited: f64,
}

impl SessionClock {
    pub fn at(&self) -> PrintedTime {
        self.at
    }

    /// Reads the time printed before the next output. Returns the seconds by which the clock was set since the previous time,
    /// but only if times had been printed at regular intervals until then: otherwise the outputs are merely in a different
    /// order.
    pub fn read(&mut self, at: PrintedTime) -> Option<f64> {
        let is_regular = self.clock.is_regular();
        let reading = self.clock.read(at, None);
        let set_by = reading.set_by.filter(|_| is_regular);
        self.was_set |= set_by.is_some();
        // Times of day continue after midnight.
        let is_counted = self.was_set || at.date.is_none();
        self.at = if is_counted { self.clock.first().after(reading.elapsed) } else { at };
        if reading.set_by.is_some() && !is_regular {
            (self.clock, self.was_set, self.at) = (ReportClock::default(), false, at);
            self.clock.read(at, None);
        }
        self.waited = 0.0;
        set_by
    }

    pub fn wait(&mut self, seconds: f64) {
        self.waited += seconds;
    }

    /// Returns the last printed time plus the seconds waited since. If no time was printed and `is_relative`, counts from zero.
    pub fn now(&self, is_relative: bool) -> PrintedTime {
        let time = self.at.time.or(is_relative.then_some(0.0));
        PrintedTime { time: time.map(|time| time + self.waited), ..self.at }
    }

    /// Dates a time of day that follows the last printed time.
    pub fn at_time_of_day(&self, time: f64) -> PrintedTime {
        let is_next_day = self.at.time.is_some_and(|before| time < before % DAY - DAY / 2.0);
        let same_day = PrintedTime { time: Some(time), ..self.at };
        match (self.at.date, is_next_day) {
            (Some(_), true) => same_day.after(DAY),
            _ => same_day,
        }
    }
}
