//! Converts printed times to seconds since the first reading. Clocks start over at midnight, are set by people and by NTP, and
//! change to and from daylight saving time.

use crate::clock::{DAY, PrintedTime};

const HOUR: f64 = 3600.0;
/// Step over a change of the clock, in seconds, if nothing shows how far apart the readings are.
const ASSUMED: f64 = 1.0;
/// Factor by which a step may exceed the usual one and still be usual.
const USUAL: f64 = 1.5;
/// Tolerance in seconds: times are printed in whole seconds.
const ROUNDING: f64 = 1.0;
/// Step in seconds above which an hour's rows may be missing, which looks like daylight saving time.
const RARE: f64 = 60.0;
/// Hours of the day to which clocks are set forward for daylight saving time.
const SPRING: std::ops::Range<f64> = HOUR..5.0 * HOUR;
/// Maximum number of clock settings to distinguish.
const MOST_ERAS: usize = 1000;

/// A reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockReading {
    /// Seconds since the first reading.
    pub elapsed: f64,
    /// Seconds by which the clock was set since the previous reading, if it was.
    pub set_by: Option<f64>,
}

/// Period between two settings of the clock, in seconds since the first reading by the printed clock.
#[derive(Clone, Copy, Debug)]
struct Era {
    first: f64,
    last: f64,
    /// Seconds that had really elapsed at its first reading.
    elapsed: f64,
}

impl Era {
    fn has(&self, at: f64) -> bool {
        (self.first..=self.last).contains(&at)
    }

    fn elapsed(&self, at: f64) -> f64 {
        self.elapsed + at - self.first
    }
}

/// Times of an output. Several tables may go through them one after the other, or in turn.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    origin: PrintedTime,
    eras: Vec<Era>,
}

/// Position of one table in the times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    last: Option<PrintedTime>,
    era: usize,
    at: f64,
    /// Newest step that was not an exception.
    usual: Option<f64>,
}

/// Change of the printed time between two readings.
enum Movement {
    /// Time between the readings.
    Step(f64),
    /// The clock was set; holds the difference of the printed times.
    Set(f64),
}

impl Timeline {
    /// Reads the next time of a table. `asked` is the interval from the command line.
    pub fn read(&mut self, cursor: &mut Cursor, now: PrintedTime, asked: Option<f64>) -> ClockReading {
        let Some(last) = cursor.last.replace(now) else { return self.begin(cursor, now) };
        let usual = asked.or(cursor.usual);
        let before = self.elapsed(cursor);
        match movement(last, now, usual) {
            Movement::Step(step) => {
                cursor.at += step;
                // A longer step is a gap.
                let is_usual = step > 0.0 && cursor.usual.is_none_or(|usual| step <= USUAL * usual + ROUNDING);
                cursor.usual = if is_usual { Some(step) } else { cursor.usual };
                self.go_on(cursor);
                ClockReading { elapsed: self.elapsed(cursor).max(before), set_by: None }
            }
            Movement::Set(shown) => {
                cursor.at += shown;
                let step = usual.unwrap_or(ASSUMED);
                let is_known = cursor.era + 1 < self.eras.len();
                if is_known || self.eras.len() >= MOST_ERAS {
                    cursor.era = self.eras.len().min(cursor.era + 2) - 1;
                    let era = &mut self.eras[cursor.era];
                    cursor.at = cursor.at.max(era.first);
                    era.last = era.last.max(cursor.at);
                } else {
                    self.eras.push(Era { first: cursor.at, last: cursor.at, elapsed: before + step });
                    cursor.era = self.eras.len() - 1;
                }
                let set_by = Some(shown - step).filter(|_| !is_known);
                ClockReading { elapsed: self.elapsed(cursor).max(before), set_by }
            }
        }
    }

    fn begin(&mut self, cursor: &mut Cursor, now: PrintedTime) -> ClockReading {
        if self.eras.is_empty() {
            self.origin = now;
            self.eras.push(Era { first: 0.0, last: 0.0, elapsed: 0.0 });
        }
        let shown = now.since(self.origin).unwrap_or(0.0);
        let found = self.eras.iter().position(|era| era.has(shown));
        cursor.era = found.unwrap_or(self.eras.len() - 1);
        // A time before all earlier ones is on the next day.
        cursor.at = if shown < 0.0 { shown + DAY } else { shown };
        self.go_on(cursor);
        ClockReading { elapsed: self.elapsed(cursor).max(0.0), set_by: None }
    }

    /// Advances to the era of a reading if it was reached without a setting in this table, and extends that era.
    fn go_on(&mut self, cursor: &mut Cursor) {
        let is_past = self.eras[cursor.era].last < cursor.at;
        if is_past && self.eras.get(cursor.era + 1).is_some_and(|next| next.has(cursor.at)) {
            cursor.era += 1;
        }
        let era = &mut self.eras[cursor.era];
        era.last = era.last.max(cursor.at);
    }

    fn elapsed(&self, cursor: &Cursor) -> f64 {
        self.eras.get(cursor.era).map_or(0.0, |era| era.elapsed(cursor.at))
    }
}

fn movement(last: PrintedTime, now: PrintedTime, usual: Option<f64>) -> Movement {
    let step = now.since(last).unwrap_or(0.0);
    // Tools that print the date once do not change it at midnight.
    let is_undated = last.date.is_none() || now.date.is_none() || last.date == now.date;
    let is_usual = |step: f64| usual.is_some_and(|usual| step > 0.0 && step <= USUAL * usual + ROUNDING);
    if step >= 0.0 {
        let is_set = usual.is_some_and(|usual| is_hour_forward(step - usual, usual, now));
        return if is_set { Movement::Set(step) } else { Movement::Step(step) };
    }
    let hour = |time: PrintedTime| time.time.map(|seconds| (seconds / HOUR) as u32);
    let is_noon = hour(last) == Some(12) && hour(now) == Some(1);
    let of_half_day = step + DAY / 2.0;
    match is_undated {
        true if is_usual(step + DAY) => Movement::Step(step + DAY),
        // A 12-hour clock without AM and PM.
        true if is_noon && (is_usual(of_half_day) || usual.is_none()) => Movement::Step(of_half_day),
        true if step <= -DAY / 2.0 => Movement::Step(step + DAY),
        _ => Movement::Set(step),
    }
}

/// Returns true if a step is one hour longer than usual, as when daylight saving time begins.
fn is_hour_forward(excess: f64, usual: f64, now: PrintedTime) -> bool {
    let is_hour = (excess - HOUR).abs() <= ROUNDING && usual < HOUR / 2.0;
    is_hour && (usual <= RARE || now.time.is_some_and(|time| SPRING.contains(&(time % DAY))))
}

/// Times of an output in which each follows the one before.
#[derive(Clone, Debug, Default)]
pub struct ReportClock {
    timeline: Timeline,
    cursor: Cursor,
    /// Number of consecutive steps as long as the one before.
    regular: usize,
    step: f64,
    elapsed: f64,
}

impl ReportClock {
    /// Reads the next time. `asked` is the interval from the command line.
    pub fn read(&mut self, now: PrintedTime, asked: Option<f64>) -> ClockReading {
        let reading = self.timeline.read(&mut self.cursor, now, asked);
        let step = reading.elapsed - self.elapsed;
        let is_same = (step - self.step).abs() <= ROUNDING && step > 0.0;
        self.regular = if is_same { self.regular + 1 } else { 0 };
        (self.elapsed, self.step) = (reading.elapsed, step);
        reading
    }

    /// Returns the first time that was read.
    pub fn first(&self) -> PrintedTime {
        self.timeline.origin
    }

    /// Returns the newest step that was not an exception.
    pub fn usual(&self) -> Option<f64> {
        self.cursor.usual
    }

    /// Returns true if readings came at regular intervals.
    pub fn is_regular(&self) -> bool {
        self.regular > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::time_of_day;

    fn at(text: &str) -> PrintedTime {
        PrintedTime::of_day(time_of_day(&text.split(' ').collect::<Vec<_>>()).unwrap().0)
    }

    fn elapsed(times: &[&str]) -> (Vec<f64>, Vec<f64>) {
        let mut clock = ReportClock::default();
        let readings: Vec<_> = times.iter().map(|time| clock.read(at(time), None)).collect();
        (readings.iter().map(|r| r.elapsed).collect(), readings.iter().filter_map(|r| r.set_by).collect())
    }

    #[test]
    fn midnight_is_no_step_back() {
        assert_eq!(elapsed(&["23:59:50", "00:00:10", "00:00:30"]), (vec![0.0, 20.0, 40.0], vec![]));
        assert_eq!(elapsed(&["22:00:00", "10:00:00", "22:00:00"]).0, [0.0, 43_200.0, 86_400.0]);
        assert_eq!(elapsed(&["05:00:00", "18:00:00", "07:00:00"]).0, [0.0, 46_800.0, 93_600.0], "every 13 hours");
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_order_and_interval() {
        let (times, set) = elapsed(&["01:59:58", "01:59:59", "01:00:00", "01:00:01"]);
        assert_eq!((times, set), (vec![0.0, 1.0, 2.0, 3.0], vec![-3600.0]));
        let (times, set) = elapsed(&["10:00:00", "10:00:02", "10:00:01", "10:00:03"]);
        assert_eq!((times, set), (vec![0.0, 2.0, 4.0, 6.0], vec![-3.0]));
    }

    #[test]
    fn daylight_saving_time_is_no_hour_of_interval() {
        let (times, set) = elapsed(&["01:59:58", "01:59:59", "03:00:00", "03:00:01"]);
        assert_eq!((times, set), (vec![0.0, 1.0, 2.0, 3.0], vec![3600.0]));
        let (times, set) = elapsed(&["01:40:01", "01:50:01", "03:00:01", "03:10:01"]);
        assert_eq!((times, set), (vec![0.0, 600.0, 1200.0, 1800.0], vec![3600.0]));
        let (times, set) = elapsed(&["14:40:01", "14:50:01", "16:00:01"]);
        assert_eq!((times, set), (vec![0.0, 600.0, 4800.0], vec![]), "no clock is set at that hour: rows are missing");
    }

    #[test]
    fn clocks_of_twelve_hours() {
        assert_eq!(elapsed(&["12:59:58", "12:59:59", "01:00:00"]), (vec![0.0, 1.0, 2.0], vec![]));
        assert_eq!(elapsed(&["12:40:01", "12:50:01", "01:00:01"]), (vec![0.0, 600.0, 1200.0], vec![]));
        assert_eq!(elapsed(&["11:59:59 AM", "12:00:00 PM", "01:30:00 PM"]).0, [0.0, 1.0, 5401.0]);
    }

    #[test]
    fn tables_go_through_the_same_times() {
        let mut timeline = Timeline::default();
        let mut read = |cursor: &mut Cursor, text: &str| timeline.read(cursor, at(text), None);
        let times = ["01:59:58", "01:59:59", "01:00:00", "01:00:01"];
        let (mut first, mut second) = (Cursor::default(), Cursor::default());
        let one: Vec<_> = times.iter().map(|time| read(&mut first, time)).collect();
        let two: Vec<_> = times.iter().map(|time| read(&mut second, time)).collect();
        let elapsed = |all: &[ClockReading]| all.iter().map(|reading| reading.elapsed).collect::<Vec<_>>();
        assert_eq!((elapsed(&one), elapsed(&two)), (vec![0.0, 1.0, 2.0, 3.0], vec![0.0, 1.0, 2.0, 3.0]));
        assert_eq!(two.iter().filter(|reading| reading.set_by.is_some()).count(), 0, "it is said once");
        // In turn, as if printed during the measurement.
        assert_eq!([read(&mut first, "01:00:02"), read(&mut second, "01:00:02")].map(|r| r.elapsed), [4.0, 4.0]);
    }
}
