//! Times as tools print them: often a time of day without a date, never a time zone. They are taken as UTC.

use jiff::civil::Date;

/// Days and months of the C locale.
pub const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
pub const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The same in other languages where they differ, by month: system logs are written in the language of the system.
const MONTHS_ELSEWHERE: [&[&str]; 12] = [
    &["ene", "gen", "sty"],
    &["fev", "fév", "lut"],
    &["mär", "mrt", "mrz"],
    &["abr", "avr", "kwi"],
    &["mai", "mei", "mag", "maj", "may"],
    &["giu", "jui", "cze"],
    &["lug", "lip"],
    &["ago", "sie"],
    &["set", "wrz"],
    &["okt", "ott", "out", "oct", "paź"],
    &["lis"],
    &["dez", "dic", "dec", "déc", "gru"],
];

/// The number of a month from 0, by its abbreviation in whatever case.
pub fn month(name: &str) -> Option<usize> {
    let english = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name));
    english.or_else(|| {
        let lower = name.to_lowercase();
        MONTHS_ELSEWHERE.iter().position(|names| names.contains(&lower.as_str()))
    })
}

pub const DAY: f64 = 86_400.0;
/// Nanoseconds in a second.
pub const SECOND: f64 = 1e9;

/// Seconds as whole nanoseconds, clamped to what fits.
pub fn nanoseconds(seconds: f64) -> u64 {
    (seconds * SECOND).round() as u64
}

/// A time, as far as it was printed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrintedTime {
    pub date: Option<Date>,
    /// Seconds since midnight.
    pub time: Option<f64>,
}

impl PrintedTime {
    /// Seconds since 1970, if both date and time are known.
    pub fn since_1970(self) -> Option<f64> {
        let days = (self.date? - Date::constant(1970, 1, 1)).get_days();
        Some(f64::from(days) * DAY + self.time?)
    }

    /// Seconds from an earlier time to this one; without dates, both are taken to be of the same day.
    pub fn since(self, earlier: Self) -> Option<f64> {
        match (self.since_1970(), earlier.since_1970()) {
            (Some(later), Some(earlier)) => Some(later - earlier),
            _ => Some(self.time? - earlier.time?),
        }
    }
}

/// The time of day at the start of these fields, in seconds, and how many fields it takes: `14:19:48`, `02:04:04 AM`,
/// `02:04:04AM`.
pub fn time_of_day(fields: &[&str]) -> Option<(f64, usize)> {
    let first = fields.first()?;
    let attached = ["AM", "PM"].into_iter().find(|half| first.ends_with(half));
    let half = attached.or_else(|| fields.get(1).copied().filter(|f| ["AM", "PM"].contains(f)));
    let clock = attached.map_or(*first, |half| first.trim_end_matches(half));
    let mut parts = clock.split(':');
    let mut part = |most: f64| parts.next()?.parse::<f64>().ok().filter(|n| (0.0..most).contains(n));
    let (hours, minutes, seconds) = (part(24.0)?, part(60.0)?, part(61.0)?);
    if parts.next().is_some() {
        return None;
    }
    let hours = match half {
        Some("PM") if hours < 12.0 => hours + 12.0,
        Some("AM") if hours == 12.0 => 0.0,
        _ => hours,
    };
    let taken = if half.is_some() && attached.is_none() { 2 } else { 1 };
    Some((hours * 3600.0 + minutes * 60.0 + seconds, taken))
}

/// The time of day at the start of a line, and the fields after it.
pub fn timed_fields(line: &str) -> Option<(f64, Vec<&str>)> {
    let mut fields: Vec<&str> = line.split_whitespace().collect();
    let (time, taken) = time_of_day(&fields)?;
    fields.drain(..taken);
    Some((time, fields))
}

/// The fields of a line of averages, which sysstat begins with a word for that in any language: `Average:`, `Media:`, `Moyenne :`.
pub fn averaged_fields(line: &str) -> Option<Vec<&str>> {
    /// The longest of these words.
    const LONGEST: usize = 16;
    let (label, rest) = line.trim_start().split_once(':')?;
    let word = label.trim_end();
    let is_word = !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || c == '.');
    (label.len() <= LONGEST && is_word && rest.starts_with([' ', '\t'])).then(|| rest.split_whitespace().collect())
}

/// A date: `2010-06-05`, `01/14/2010`, `05/09/05` (month first, as in the C locale), or `14.01.2010`.
pub fn date(field: &str) -> Option<Date> {
    let separator = field.chars().find(|c| !c.is_ascii_digit())?;
    let parts: Vec<i16> = field.split(separator).map(|p| p.parse().ok()).collect::<Option<_>>()?;
    let [a, b, c] = parts[..] else { return None };
    let (year, month, day) = match separator {
        '-' if a > 31 => (a, b, c),
        '/' if a > 12 => (c, b, a),
        '/' => (c, a, b),
        '.' => (c, b, a),
        _ => return None,
    };
    let year = if year < 100 { year + if year < 70 { 2000 } else { 1900 } } else { year };
    Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// A line with only a time, as date(1) prints it: `Sat Nov 21 16:54:34 UTC 2026`, `Sat 21 Nov 2026 04:54:34 PM UTC`,
/// `2026-11-21T16:54:34+00:00`; also after OSWatcher's `zzz ***`.
pub fn date_line(line: &str) -> Option<PrintedTime> {
    let line = line.trim().trim_start_matches("zzz").trim_start().trim_start_matches('*');
    let fields: Vec<&str> = line.split_whitespace().collect();
    // `date +%T`
    if let [time] = fields[..]
        && time.len() == "14:19:48".len()
        && let Some((time, _)) = time_of_day(&fields)
    {
        return Some(PrintedTime { date: None, time: Some(time) });
    }
    if fields.len() <= 2 {
        let (day, time) = line.split_once(['T', ' '])?;
        let time = time.split(['+', 'Z', ' ']).next()?.split('.').next()?;
        return Some(PrintedTime { date: Some(date(day)?), time: Some(time_of_day(&[time])?.0) });
    }
    let weekday = DAYS.contains(fields.first()?);
    let at = fields.iter().position(|f| f.contains(':')).filter(|at| *at > 0)?;
    let (time, taken) = time_of_day(&fields[at..])?;
    let mut rest: Vec<&str> = fields[1..].to_vec();
    rest.drain(at - 1..at - 1 + taken);
    let month = rest.iter().find_map(|f| MONTHS.iter().position(|m| m == f))?;
    let mut numbers = rest.iter().filter_map(|f| f.parse::<i16>().ok());
    let (day, year) = (numbers.next()?, numbers.next()?);
    let date = Date::new(year, i8::try_from(month + 1).ok()?, i8::try_from(day).ok()?).ok()?;
    // A weekday, a month, a day, a year and possibly a zone.
    (weekday && numbers.next().is_none() && (3..=4).contains(&rest.len()))
        .then_some(PrintedTime { date: Some(date), time: Some(time) })
}

/// The time over which counters grew, in seconds since the run began.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReportInterval {
    pub from: f64,
    pub to: f64,
}

impl ReportInterval {
    pub fn seconds(self) -> f64 {
        self.to - self.from
    }
}

/// Seconds since the first reading, from times of day that start over at midnight.
#[derive(Clone, Copy, Debug, Default)]
pub struct ElapsedTime {
    last: Option<f64>,
    elapsed: f64,
}

impl ElapsedTime {
    /// Seconds from the first reading to this one. A time that goes back by less than half a day does not advance.
    pub fn read(&mut self, time: f64) -> f64 {
        if let Some(last) = self.last {
            let step = if time < last - DAY / 2.0 { time + DAY - last } else { time - last };
            if step <= 0.0 {
                return self.elapsed;
            }
            self.elapsed += step;
        }
        self.last = Some(time);
        self.elapsed
    }
}

/// Seconds since the first reading of several tables that each cover the same times.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableTime {
    first: Option<f64>,
}

impl TableTime {
    /// Seconds from the first reading to this one; an earlier time of day is on the next day.
    pub fn read(&mut self, time: f64) -> f64 {
        let first = *self.first.get_or_insert(time);
        if time < first { time + DAY - first } else { time - first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn am_and_pm_are_told_apart() {
        assert_eq!(time_of_day(&["02:04:04", "AM", "all"]), Some((7444.0, 2)));
        assert_eq!(time_of_day(&["12:00:01", "AM"]), Some((1.0, 2)));
        assert_eq!(time_of_day(&["09:43:08PM"]), Some((78_188.0, 1)));
        assert_eq!(time_of_day(&["14:19:48"]), Some((51_588.0, 1)));
        for wrong in ["24:00:00", "12:60:00", "1:2", "1:2:3:4", "a:b:c", "-1:00:00", ""] {
            assert_eq!(time_of_day(&[wrong]), None, "{wrong}");
        }
    }

    #[test]
    fn dates_of_several_locales_are_read() {
        let day = Some(Date::constant(2010, 1, 14));
        for text in ["2010-01-14", "01/14/2010", "01/14/10", "14/01/2010", "14.01.2010"] {
            assert_eq!(date(text), day, "{text}");
        }
        for wrong in ["", "1", "//", "2010-13-01", "x86_64", "1.2.3.4", "99999-1-1"] {
            assert_eq!(date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn moments_as_date_prints_them() {
        let at = Some(PrintedTime { date: Some(Date::constant(2026, 11, 21)), time: Some(60_874.0) });
        for text in [
            "Sat Nov 21 16:54:34 UTC 2026",
            "Sat Nov 21 16:54:34 2026",
            "Sat 21 Nov 2026 04:54:34 PM UTC",
            "2026-11-21T16:54:34+00:00",
            "2026-11-21 16:54:34",
            "zzz ***Sat Nov 21 16:54:34 UTC 2026",
        ] {
            assert_eq!(date_line(text), at, "{text}");
        }
        assert_eq!(date_line("16:54:34"), Some(PrintedTime { date: None, time: Some(60_874.0) }));
        for wrong in [
            "16:54:34.5",
            "16:54",
            "Dec 20 10:33:23 host kernel: x",
            "Sat Nov 21 16:54:34 UTC 2026 host",
            "a b c",
            "",
            "Sat Nov 2026 16:54:34",
        ] {
            assert_eq!(date_line(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn months_are_known_in_other_languages() {
        assert_eq!(["Jan", "jan", "Mär", "okt", "dic"].map(month), [Some(0), Some(0), Some(2), Some(9), Some(11)]);
        assert_eq!(["", "the", "Mon", "January"].map(month), [None; 4]);
    }

    #[test]
    fn midnight_is_no_step_back() {
        let mut clock = ElapsedTime::default();
        assert_eq!([86_390.0, 10.0, 9.0, 30.0].map(|t| clock.read(t)), [0.0, 20.0, 20.0, 40.0]);
    }
}
