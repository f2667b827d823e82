//! Time spans.

use jiff::Timestamp;
use whyslow_rollup::Hour;

/// A half-open span of time, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Start, inclusive.
    pub from_ms: i64,
    /// End, exclusive.
    pub to_ms: i64,
}

/// Milliseconds in an hour.
pub const HOUR_MS: i64 = 3_600_000;
/// Milliseconds in a day.
pub const DAY_MS: i64 = 24 * HOUR_MS;

impl Span {
    /// Returns the span with its start moved back by `ms`.
    pub fn extended_back(self, ms: i64) -> Self {
        Self { from_ms: self.from_ms.saturating_sub(ms), ..self }
    }

    /// Returns the span of length `ms` just before this one.
    pub fn preceding(self, ms: i64) -> Self {
        Self { from_ms: self.from_ms.saturating_sub(ms), to_ms: self.from_ms }
    }

    /// Returns the midpoint.
    pub fn middle(self) -> i64 {
        self.from_ms.midpoint(self.to_ms)
    }

    /// Returns whether the span contains a time.
    pub fn contains(self, ms: i64) -> bool {
        (self.from_ms..self.to_ms).contains(&ms)
    }

    /// Returns whether the span overlaps an hour.
    pub fn touches(self, hour: Hour) -> bool {
        hour.start() < self.to_ms && hour.end() > self.from_ms
    }

    /// Returns whether the span contains all rows of an hour's files.
    pub fn covers(self, hour: Hour) -> bool {
        let margin = crate::validity::MARGIN_MS;
        self.from_ms <= hour.start() - margin && hour.end() + margin <= self.to_ms
    }

    /// Returns the SQL condition that a time column lies in the span.
    pub fn sql(self, column: &str) -> String {
        format!("{column} >= {} AND {column} < {}", time(self.from_ms), time(self.to_ms))
    }
}

/// Formats a time as an SQL timestamp literal in UTC.
pub fn time(ms: i64) -> String {
    let text = Timestamp::from_millisecond(ms)
        .map_or_else(|_| "9999-12-31 23:59:59".to_owned(), |time| time.strftime("%Y-%m-%d %H:%M:%S%.3f").to_string());
    format!("TIMESTAMP '{text}'")
}

/// Formats a time for documents (RFC 3339).
pub fn rfc3339(ms: i64) -> String {
    Timestamp::from_millisecond(ms).map_or_else(|_| ms.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    #[test]
    fn a_span_knows_its_hours() {
        let span = Span { from_ms: ms("2026-11-26T14:30:00Z"), to_ms: ms("2026-11-26T17:00:00Z") };
        let hour = |text: &str| Hour::from_ms(ms(text)).unwrap();
        let touched = ["13", "14", "15", "16", "17"].map(|at| span.touches(hour(&format!("2026-11-26T{at}:00:00Z"))));
        assert_eq!(touched, [false, true, true, true, false]);
        let covered = ["14", "15", "16"].map(|at| span.covers(hour(&format!("2026-11-26T{at}:00:00Z"))));
        assert_eq!(covered, [false, true, false], "a row may be a second late");
        assert_eq!(span.middle(), ms("2026-11-26T15:45:00Z"));
    }

    #[test]
    fn the_condition_is_sql() {
        let span = Span { from_ms: ms("2026-11-26T14:30:00.25Z"), to_ms: ms("2026-11-26T17:00:00Z") };
        assert_eq!(
            span.sql("at"),
            "at >= TIMESTAMP '2026-11-26 14:30:00.250' AND at < TIMESTAMP '2026-11-26 17:00:00.000'"
        );
    }
}
