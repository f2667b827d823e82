//! Times of log lines in seconds, to measure durations.

use crate::clock::{self, DAY, PrintedTime};
use jiff::civil::Date;

/// Year to assume if a log does not print it: a leap year, so that it has every day.
const ANY_YEAR: i16 = 2000;
const YEAR: f64 = 366.0 * DAY;

/// Time at which a line was logged.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogTime<'l> {
    /// The time as printed.
    pub printed: Option<&'l str>,
    pub since_boot_ns: Option<u64>,
}

impl LogTime<'_> {
    /// Returns the seconds on a clock that all lines of the file share: since 1970, in an unknown year, or since boot.
    pub fn seconds(self) -> Option<f64> {
        self.printed.and_then(of_printed).or_else(|| self.since_boot_ns.map(|ns| ns as f64 / 1e9))
    }
}

/// Parses `Dec 20 10:33:23`, `Sat Jun  1 12:00:00 2024`, `2024-06-01T12:00:00,123456+02:00`, `Sat 2024-06-01 12:00:00 CEST`,
/// `1717236000.123456`, and the journal's microseconds `1717236000123456`. If the zone is known, the time is UTC: a log
/// continues when daylight saving time ends.
fn of_printed(text: &str) -> Option<f64> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse::<f64>().ok().map(|us| us / 1e6);
    }
    if let Some((seconds, fraction)) = text.split_once('.').filter(|(seconds, _)| seconds.len() == 10)
        && seconds.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit())
    {
        return text.parse().ok();
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    match fields[..] {
        [month, day, time] if clock::month(month).is_some() => of_any_year(month, day, time),
        [_, date, time, zone] if date.contains('-') => clock::date_line(&format!("{date} {time} {zone}"))?.since_1970(),
        _ => clock::date_line(text)?.since_1970(),
    }
}

fn of_any_year(month: &str, day: &str, time: &str) -> Option<f64> {
    let month = clock::month(month)? + 1;
    let date = Date::new(ANY_YEAR, i8::try_from(month).ok()?, day.parse().ok()?).ok()?;
    let (time, _) = clock::time_of_day(&[time])?;
    PrintedTime::new(Some(date), time).since_1970()
}

/// Time covered by a log.
#[derive(Debug, Default)]
pub struct LogSpan {
    first: Option<f64>,
    printed: Option<String>,
    since_boot_ns: Option<u64>,
}

impl LogSpan {
    /// Adds the time of the next line. Parses it only at the end: a log of a gigabyte has ten million lines.
    pub fn add(&mut self, when: LogTime<'_>) {
        if when.printed.is_none() && when.since_boot_ns.is_none() {
            return;
        }
        if self.first.is_none() {
            self.first = when.seconds();
        }
        self.since_boot_ns = when.since_boot_ns;
        match (when.printed, &mut self.printed) {
            (Some(time), Some(own)) => time.clone_into(own),
            (time, own) => *own = time.map(str::to_owned),
        }
    }

    /// Returns the seconds from the first line to the last. Without printed years, a year may have ended in between.
    pub fn seconds(&self) -> Option<f64> {
        let last = LogTime { printed: self.printed.as_deref(), since_boot_ns: self.since_boot_ns }.seconds()?;
        let seconds = last - self.first?;
        Some(if seconds < -YEAR / 2.0 { seconds + YEAR } else { seconds }).filter(|s| *s >= 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_print_a_time() {
        let noon = 1_717_243_200.0;
        for text in [
            "Sat Jun  1 12:00:00 2024",
            "2024-06-01T14:00:00+02:00",
            "2024-06-01T12:00:00.000Z",
            "2024-06-01T14:00:00,000000+02:00",
            "Sat 2024-06-01 14:00:00 CEST",
            "Sat 2024-06-01 12:00:00 BST",
            "1717243200.000000",
            "1717243200000000",
        ] {
            assert_eq!(of_printed(text), Some(noon), "{text}");
        }
        let apart = |a, b| of_printed(b).unwrap() - of_printed(a).unwrap();
        assert_eq!(apart("Feb 28 23:59:50", "Mar  1 00:00:10"), 86_420.0);
        assert_eq!(apart("2026-10-25T02:59:59+0200", "2026-10-25T02:00:00+0100"), 1.0);
        for wrong in ["", "Dec 20", "Dec 40 10:00:00", "Dec 20 25:00:00", "12.5", "x"] {
            assert_eq!(of_printed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_log_over_new_year() {
        let mut span = LogSpan::default();
        assert_eq!(span.seconds(), None);
        for printed in ["Dec 31 23:59:00", "Dec 31 23:59:30", "Jan  1 00:00:30"] {
            span.add(LogTime { printed: Some(printed), since_boot_ns: None });
        }
        assert_eq!(span.seconds(), Some(90.0));
        let mut boots = LogSpan::default();
        for seconds in [1000, 5] {
            boots.add(LogTime { printed: None, since_boot_ns: Some(seconds * 1_000_000_000) });
        }
        assert_eq!(boots.seconds(), None, "the machine was started in between");
    }
}
