//! Formats times of day in the local time zone or UTC, to the second.

use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned, civil};

/// Parses a time as people write it: with a zone (RFC 3339), a date and time in the zone of `now`, or a time of day there, which
/// means its last occurrence. Returns `None` for other text.
pub fn moment(text: &str, now: &Zoned) -> Option<Timestamp> {
    let zone = now.time_zone();
    if let Ok(time) = text.parse::<Timestamp>() {
        return Some(time);
    }
    // The time of day is tried last: jiff also parses it from a date and time, and ignores the date.
    if let Ok(time) = text.parse::<civil::DateTime>() {
        return Some(time.to_zoned(zone.clone()).ok()?.timestamp());
    }
    let today = now.date().to_datetime(text.parse().ok()?).to_zoned(zone.clone()).ok()?;
    let last = if today > *now { today.checked_sub(1.day()).ok()? } else { today };
    Some(last.timestamp())
}

/// Formats times in one zone.
#[derive(Clone, Debug)]
pub struct ZonedClock {
    zone: TimeZone,
}

impl ZonedClock {
    /// Creates a clock in UTC, or in the zone of this machine.
    pub fn new(utc: bool) -> Self {
        Self { zone: if utc { TimeZone::UTC } else { TimeZone::system() } }
    }

    /// Formats a time as `14:03:22`; text that is not RFC 3339 is unchanged.
    pub fn time(&self, text: &str) -> String {
        self.format(text, "%H:%M:%S")
    }

    /// Creates a clock in the local zone, which `--utc` overrides.
    pub fn local() -> Self {
        Self::new(false)
    }

    /// Formats a time as `2026-11-21 14:03:22`.
    pub fn date_and_time(&self, text: &str) -> String {
        self.format(text, "%Y-%m-%d %H:%M:%S")
    }

    /// Formats a time in nanoseconds since 1970 as `14:03:22`, with the date first if requested.
    pub fn at(&self, wall_ns: i64, with_date: bool) -> String {
        let time = Timestamp::from_nanosecond(wall_ns.into()).map_or_else(|_| wall_ns.to_string(), |at| at.to_string());
        if with_date { self.date_and_time(&time) } else { self.time(&time) }
    }

    /// Formats a time as `2026-11-21 14:03:22 CET`.
    pub fn moment(&self, text: &str) -> String {
        self.format(text, "%Y-%m-%d %H:%M:%S %Z")
    }

    /// Formats a period as `14:03:22–14:03:32 CET`, with the date first if requested.
    pub fn span(&self, start: &str, end: &str, with_date: bool) -> String {
        let days = [start, end].map(|text| self.format(text, "%Y-%m-%d"));
        let start = if with_date { self.date_and_time(start) } else { self.time(start) };
        let zone = self.format(end, "%Z");
        let end = if with_date && days[0] != days[1] { self.date_and_time(end) } else { self.time(end) };
        format!("{start}–{end} {zone}")
    }

    /// Formats a time in seconds since 1970 with a strftime format; empty if it is beyond the calendar.
    pub(crate) fn format_seconds(&self, seconds: f64, format: &str) -> String {
        self.zoned(seconds).map_or_else(String::new, |time| time.strftime(format).to_string())
    }

    /// Returns the seconds by which local time is ahead of UTC, at a time in seconds since 1970.
    pub(crate) fn offset(&self, seconds: f64) -> f64 {
        self.zoned(seconds).map_or(0.0, |time| f64::from(time.offset().seconds()))
    }

    fn zoned(&self, seconds: f64) -> Option<Zoned> {
        let time = Timestamp::from_millisecond((seconds * 1e3).round() as i64).ok()?;
        Some(time.to_zoned(self.zone.clone()))
    }

    fn format(&self, text: &str, format: &str) -> String {
        let time = text.parse::<Timestamp>();
        time.map_or_else(|_| text.to_owned(), |time| time.to_zoned(self.zone.clone()).strftime(format).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short_and_name_their_zone() {
        let clock = ZonedClock::new(true);
        let (start, end) = ("2026-11-21T10:00:00.25+01:00", "2026-11-21T10:00:10.123456789+01:00");
        assert_eq!(clock.span(start, end, false), "09:00:00–09:00:10 UTC");
        assert_eq!(clock.span(start, end, true), "2026-11-21 09:00:00–09:00:10 UTC");
        assert_eq!(
            clock.span("2026-11-21T23:59:59Z", "2026-11-22T00:00:01Z", true),
            "2026-11-21 23:59:59–2026-11-22 00:00:01 UTC"
        );
        assert_eq!(clock.time("then"), "then");
        assert_eq!(clock.at(1_500_000_000, false), "00:00:01");
        assert_eq!(clock.at(1_500_000_000, true), "1970-01-01 00:00:01");
    }
}
