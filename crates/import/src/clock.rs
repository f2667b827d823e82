//! Times as tools print them: often a time of day without a date, seldom with a zone. A time without a zone is the machine's
//! local time.

use crate::zone::Zone;
use jiff::civil::Date;

/// Day and month names of the C locale.
pub const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
pub const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Month abbreviations in other languages where they differ, by month: system logs are written in the system's language.
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

/// Returns the month, counted from 0, for an abbreviation in upper or lower case.
pub fn month(name: &str) -> Option<usize> {
    let english = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name));
    english.or_else(|| {
        let lower = name.to_lowercase();
        MONTHS_ELSEWHERE.iter().position(|names| names.contains(&lower.as_str()))
    })
}

pub const DAY: f64 = 86_400.0;
/// Nanoseconds per second.
pub const SECOND: f64 = 1e9;

/// Converts seconds to whole nanoseconds, clamped to the range of `u64`.
pub fn nanoseconds(seconds: f64) -> u64 {
    (seconds * SECOND).round() as u64
}

/// Spells out whole seconds: `1 h`, `1 h 5 s`.
pub fn spelled_seconds(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    let parts = [(whole / 3600, "h"), (whole / 60 % 60, "min"), (whole % 60, "s")];
    let parts = parts.iter().filter(|(count, _)| *count > 0).map(|(count, unit)| format!("{count} {unit}"));
    let spelled = parts.collect::<Vec<_>>().join(" ");
    if spelled.is_empty() { "0 s".to_owned() } else { spelled }
}

/// A printed time. Parts that were not printed are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrintedTime {
    pub date: Option<Date>,
    /// Seconds since midnight.
    pub time: Option<f64>,
    pub zone: Zone,
}

impl PrintedTime {
    const EPOCH: Date = Date::constant(1970, 1, 1);

    /// Creates a time of day without a date.
    pub fn of_day(time: f64) -> Self {
        Self { time: Some(time), ..Self::default() }
    }

    pub fn new(date: Option<Date>, time: f64) -> Self {
        Self { date, time: Some(time), zone: Zone::Local }
    }

    /// Converts seconds since 1970 to a time in UTC. Returns `None` beyond the range of supported dates.
    pub fn of_epoch(seconds: f64) -> Option<Self> {
        let days = (seconds / DAY).floor();
        let date = Self::EPOCH.checked_add(jiff::Span::new().try_days(days as i64).ok()?).ok()?;
        Some(Self { date: Some(date), time: Some(seconds - days * DAY), zone: Zone::UTC })
    }

    /// Returns the seconds since 1970 if both date and time are known. Uses the local clock unless the zone is known.
    pub fn since_1970(self) -> Option<f64> {
        Some(self.local()? - self.zone.offset().unwrap_or(0.0))
    }

    fn local(self) -> Option<f64> {
        let days = (self.date? - Self::EPOCH).get_days();
        Some(f64::from(days) * DAY + self.time?)
    }

    /// Returns the seconds from an earlier time to this one. Without dates, both are assumed to be on the same day. Zones count
    /// only if both are known.
    pub fn since(self, earlier: Self) -> Option<f64> {
        let shift = self.zone.offset().zip(earlier.zone.offset()).map_or(0.0, |(own, other)| own - other);
        let local = match (self.local(), earlier.local()) {
            (Some(later), Some(earlier)) => later - earlier,
            _ => self.time? - earlier.time?,
        };
        Some(local - shift)
    }

    /// Returns the time this many seconds later, or earlier if negative. Without a date it may be below zero or above a day.
    pub fn after(self, seconds: f64) -> Self {
        let Some(time) = self.time.map(|time| time + seconds) else { return self };
        let days = (time / DAY).floor();
        let moved = self.date.filter(|_| days != 0.0).map(|date| {
            let span = jiff::Span::new().try_days(days as i64);
            span.and_then(|span| date.checked_add(span)).ok()
        });
        match moved {
            Some(date) => Self { date, time: Some(time - days * DAY), ..self },
            None => Self { time: Some(time), ..self },
        }
    }

    /// Converts the time to UTC from a zone that is this many seconds ahead.
    pub fn in_utc(self, offset: f64) -> Self {
        Self { zone: Zone::UTC, ..self.after(-offset) }
    }
}

/// AM and PM markers, before or after the time.
const HALVES: [(&str, Half); 20] = [
    ("AM", Half::Morning),
    ("PM", Half::Afternoon),
    ("am", Half::Morning),
    ("pm", Half::Afternoon),
    ("a.m.", Half::Morning),
    ("p.m.", Half::Afternoon),
    ("上午", Half::Morning),
    ("下午", Half::Afternoon),
    ("午前", Half::Morning),
    ("午後", Half::Afternoon),
    ("오전", Half::Morning),
    ("오후", Half::Afternoon),
    ("πμ", Half::Morning),
    ("μμ", Half::Afternoon),
    ("ص", Half::Morning),
    ("م", Half::Afternoon),
    ("SA", Half::Morning),
    ("CH", Half::Afternoon),
    ("पूर्वाह्न", Half::Morning),
    ("अपराह्न", Half::Afternoon),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Morning,
    Afternoon,
}

impl Half {
    fn parse(word: &str) -> Option<Self> {
        HALVES.iter().find(|(name, _)| *name == word).map(|(_, half)| *half)
    }

    /// Splits `02:04:04AM` into its half of the day and the text before it.
    fn attached(word: &str) -> Option<(Self, &str)> {
        HALVES.iter().find_map(|(name, half)| Some((*half, word.strip_suffix(name)?)))
    }
}

/// Parses the time of day at the start of these fields. Returns it in seconds, with the number of fields it takes: `14:19:48`,
/// `02:04:04 AM`, `02:04:04AM`, `下午 02:04:04`, `14时19分48秒`.
pub fn time_of_day(fields: &[&str]) -> Option<(f64, usize)> {
    let first = *fields.first()?;
    if first.starts_with(|c: char| c.is_ascii_digit()) {
        // Nearly all times end in a digit.
        let is_plain = first.ends_with(|c: char| c.is_ascii_digit());
        let attached = if is_plain { None } else { Half::attached(first) };
        let clock = attached.map_or(first, |(_, clock)| clock);
        let time = clock_time(clock)?;
        if let Some((half, _)) = attached {
            return Some((of_half(time, half), 1));
        }
        let spaced = || match fields.get(1..3) {
            Some(["a.", "m."]) => Some((Half::Morning, 3)),
            Some(["p.", "m."]) => Some((Half::Afternoon, 3)),
            _ => Some((Half::parse(fields.get(1)?)?, 2)),
        };
        return Some(spaced().map_or((time, 1), |(half, taken)| (of_half(time, half), taken)));
    }
    let half = Half::parse(first)?;
    Some((of_half(clock_time(fields.get(1)?)?, half), 2))
}

fn of_half(time: f64, half: Half) -> f64 {
    const NOON: f64 = DAY / 2.0;
    const ONE: f64 = 3600.0;
    match half {
        Half::Afternoon if time < NOON => time + NOON,
        Half::Morning if (NOON..NOON + ONE).contains(&time) => time - NOON,
        _ => time,
    }
}

/// Parses `14:19:48` or `14时19分48秒` into seconds since midnight.
fn clock_time(clock: &str) -> Option<f64> {
    let is_mark = |c: char| matches!(c, ':' | '时' | '時' | '分');
    let mut parts = clock.strip_suffix('秒').unwrap_or(clock).split(is_mark);
    let mut part = |most: f64| parts.next()?.parse::<f64>().ok().filter(|n| (0.0..most).contains(n));
    let (hours, minutes, seconds) = (part(24.0)?, part(60.0)?, part(61.0)?);
    parts.next().is_none().then_some(hours * 3600.0 + minutes * 60.0 + seconds)
}

/// Parses seconds since 1970 as tools print them: `1795514400`, `1795514400.123`.
pub fn epoch_time(word: &str) -> Option<PrintedTime> {
    let (seconds, fraction) = word.split_once('.').unwrap_or((word, ""));
    let is_epoch = seconds.len() == 10 && seconds.starts_with(['1', '2']);
    let is_number = seconds.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit());
    PrintedTime::of_epoch(word.parse().ok().filter(|_| is_epoch && is_number)?)
}

/// Splits a line into the time of day at its start and the fields after it.
pub fn timed_fields(line: &str) -> Option<(f64, Vec<&str>)> {
    let mut fields: Vec<&str> = line.split_whitespace().collect();
    let (time, taken) = time_of_day(&fields)?;
    fields.drain(..taken);
    Some((time, fields))
}

/// Splits a line into the time at its start (time of day, or seconds since 1970) and the fields after it.
pub fn stamped_fields(line: &str) -> Option<(PrintedTime, Vec<&str>)> {
    if let Some((time, fields)) = timed_fields(line) {
        return Some((PrintedTime::of_day(time), fields));
    }
    let mut fields = line.split_whitespace();
    Some((epoch_time(fields.next()?)?, fields.collect()))
}

/// Returns the fields of a line of averages. sysstat begins such a line with a word in the system's language: `Average:`,
/// `Media:`, `Moyenne :`.
pub fn averaged_fields(line: &str) -> Option<Vec<&str>> {
    /// Maximum length of that word.
    const LONGEST: usize = 16;
    let (label, rest) = line.trim_start().split_once(':')?;
    let word = label.trim_end();
    let is_word = !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || c == '.');
    (label.len() <= LONGEST && is_word && rest.starts_with([' ', '\t'])).then(|| rest.split_whitespace().collect())
}

/// Parses a date: `2010-06-05`, `01/14/2010`, `05/09/05` (month first, as in the C locale), or `14.01.2010`.
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

/// Parses a line that holds only a time, as date(1) prints it: `Sat Nov 21 16:54:34 UTC 2026`, `Sat 21 Nov 2026 04:54:34 PM
/// UTC`, `Sat, 21 Nov 2026 16:54:34 +0000`, `2026-11-21T16:54:34+00:00`; also after OSWatcher's `zzz ***`.
pub fn date_line(line: &str) -> Option<PrintedTime> {
    let line = line.trim().trim_start_matches("zzz").trim_start().trim_start_matches('*');
    let mut fields: Vec<&str> = line.split_whitespace().collect();
    // `date +%T`
    if let [time] = fields[..]
        && time.len() == "14:19:48".len()
        && let Some((time, _)) = time_of_day(&fields)
    {
        return Some(PrintedTime::of_day(time));
    }
    if let Some(iso) = iso_time(&fields) {
        return Some(iso);
    }
    let first = fields.first_mut()?;
    *first = first.trim_end_matches(',');
    let weekday = DAYS.contains(first);
    let at = fields.iter().position(|f| f.contains(':')).filter(|at| *at > 0)?;
    let (time, taken) = time_of_day(&fields[at..])?;
    let mut rest: Vec<&str> = fields[1..].to_vec();
    rest.drain(at - 1..at - 1 + taken);
    let month = rest.iter().find_map(|f| MONTHS.iter().position(|m| m == f))?;
    let is_number = |field: &&&str| field.starts_with(|c: char| c.is_ascii_digit());
    let mut numbers = rest.iter().filter(is_number).filter_map(|f| f.parse::<i16>().ok());
    let (day, year) = (numbers.next()?, numbers.next()?);
    let date = Date::new(year, i8::try_from(month + 1).ok()?, i8::try_from(day).ok()?).ok()?;
    let zone = rest.iter().filter(|field| field.parse::<i16>().is_err() || !is_number(field));
    let zone = zone.filter(|field| !MONTHS.contains(*field)).find_map(|field| Zone::read(field));
    // A weekday, a month, a day, a year and possibly a zone.
    (weekday && numbers.next().is_none() && (3..=4).contains(&rest.len())).then_some(PrintedTime {
        date: Some(date),
        time: Some(time),
        zone: zone.unwrap_or_default(),
    })
}

/// Parses a time as in ISO 8601 and RFC 3339: `2026-11-21T16:54:34+00:00`, `2026-11-21 16:54:34.5 +0100`, `2026-11-21 16:54:34
/// CET`.
fn iso_time(fields: &[&str]) -> Option<PrintedTime> {
    let (first, behind) = fields.split_first()?;
    let (day, rest) = match first.split_once('T') {
        Some(parts) => parts,
        None => (*first, *behind.first()?),
    };
    let apart = if first.contains('T') { behind } else { &behind[1..] };
    let date = date(day)?;
    let end = rest.find(['+', '-', 'Z']).unwrap_or(rest.len());
    let (clock, attached) = rest.split_at(end);
    let time = time_of_day(&[clock.split(['.', ',']).next()?])?.0;
    let zone = match (attached, apart) {
        ("", []) => Zone::Local,
        ("", [zone]) => Zone::read(zone)?,
        (zone, []) => Zone::read(zone)?,
        _ => return None,
    };
    Some(PrintedTime { date: Some(date), time: Some(time), zone })
}

/// Interval over which counters grew, in seconds since the run began.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn am_and_pm_are_told_apart() {
        assert_eq!(time_of_day(&["02:04:04", "AM", "all"]), Some((7444.0, 2)));
        assert_eq!(time_of_day(&["12:00:01", "AM"]), Some((1.0, 2)));
        assert_eq!(time_of_day(&["09:43:08PM"]), Some((78_188.0, 1)));
        assert_eq!(time_of_day(&["14:19:48"]), Some((51_588.0, 1)));
        let afternoon =
            ["02:19:48 pm", "02:19:48 p.m.", "02:19:48 p. m.", "下午 02:19:48", "14时19分48秒", "오후 02:19:48"];
        for text in afternoon {
            let fields: Vec<&str> = text.split(' ').collect();
            assert_eq!(time_of_day(&fields), Some((51_588.0, fields.len())), "{text}");
        }
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
        let local = PrintedTime::new(Some(Date::constant(2026, 11, 21)), 60_874.0);
        for (text, zone) in [
            ("Sat Nov 21 16:54:34 UTC 2026", Some("UTC")),
            ("Sat Nov 21 16:54:34 2026", None),
            ("Sat 21 Nov 2026 04:54:34 PM UTC", Some("UTC")),
            ("Sat Nov 21 04:54:34 PM CET 2026", Some("CET")),
            ("Sat Nov 21 16:54:34 IST 2026", Some("IST")),
            ("Sat Nov 21 16:54:34 +03 2026", Some("+03")),
            ("Sat, 21 Nov 2026 16:54:34 +0530", Some("+0530")),
            ("2026-11-21T16:54:34+00:00", Some("UTC")),
            ("2026-11-21T16:54:34-08:00", Some("PST")),
            ("2026-11-21T16:54:34Z", Some("UTC")),
            ("2026-11-21 16:54:34", None),
            ("2026-11-21 16:54:34.25 +0100", Some("CET")),
            ("2026-11-21 16:54:34+01:00", Some("CET")),
            ("2026-11-21 16:54:34 CET", Some("CET")),
            ("zzz ***Sat Nov 21 16:54:34 UTC 2026", Some("UTC")),
        ] {
            let zone = zone.map(|zone| Zone::read(zone).unwrap()).unwrap_or_default();
            assert_eq!(date_line(text), Some(PrintedTime { zone, ..local }), "{text}");
        }
        assert_eq!(date_line("16:54:34"), Some(PrintedTime::of_day(60_874.0)));
        for wrong in [
            "16:54:34.5",
            "16:54",
            "Dec 20 10:33:23 host kernel: x",
            "Sat Nov 21 16:54:34 UTC 2026 host",
            "a b c",
            "",
            "Sat Nov 2026 16:54:34",
            "2026-11-21 16:54:34 host kernel",
            "2026-11-21 16:54:34 up",
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
    fn times_of_known_zones_are_compared_in_utc() {
        let at = |text: &str| date_line(text).unwrap();
        let (summer, winter) = (at("Sun Oct 25 02:59:59 CEST 2026"), at("Sun Oct 25 02:00:00 CET 2026"));
        assert_eq!(winter.since(summer), Some(1.0));
        assert_eq!(winter.since_1970(), at("2026-10-25T01:00:00Z").since_1970());
        let india = at("Sun Oct 25 02:00:01 IST 2026");
        assert_eq!(india.since(winter), Some(1.0), "by the clock on the wall: it may be Israel");
        assert_eq!(winter.in_utc(3600.0), at("2026-10-25T01:00:00Z"));
    }

    #[test]
    fn seconds_since_1970_are_dates() {
        let at = epoch_time("1795514400").unwrap();
        assert_eq!(at, date_line("Tue Nov 24 10:00:00 UTC 2026").unwrap());
        assert_eq!(epoch_time("1709164800").unwrap().date, Some(Date::constant(2024, 2, 29)));
        for wrong in ["", "179551440", "17955144000", "x795514400", "1795514400a", "3795514400"] {
            assert_eq!(epoch_time(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_go_past_midnight() {
        let new_year = PrintedTime::new(Some(Date::constant(2024, 2, 28)), DAY - 1.0).after(2.0);
        assert_eq!(new_year, PrintedTime::new(Some(Date::constant(2024, 2, 29)), 1.0));
        assert_eq!(new_year.after(-2.0).date, Some(Date::constant(2024, 2, 28)));
        assert_eq!(PrintedTime::of_day(1.0).after(-2.0).time, Some(-1.0));
    }
}
