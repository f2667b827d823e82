//! Time period of a query.

use crate::{Failure, Span};
use clap::Args;
use jiff::{SpanRelativeTo, Zoned};
use std::time::Duration;
use whyslow_show::clock;

/// Which time.
#[derive(Clone, Debug, Default, Args)]
pub struct Period {
    /// The last part: 2h, 7d [default: 24h]
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with_all = ["from", "to"])]
    pub since: Option<Duration>,
    /// Start time: 03:12, '2026-11-21 03:12', 2026-11-21T03:12:00Z [default: a day before --to]
    #[arg(long, value_name = "WHEN")]
    pub from: Option<String>,
    /// End time [default: now]
    #[arg(long, value_name = "WHEN")]
    pub to: Option<String>,
}

const DAY: Duration = Duration::from_secs(86_400);

impl Period {
    /// Returns the span of the period.
    ///
    /// # Errors
    /// Fails if a time is not valid or the span is empty.
    pub fn span(&self) -> Result<Span, Failure> {
        self.span_at(&Zoned::now())
    }

    fn span_at(&self, now: &Zoned) -> Result<Span, Failure> {
        let when = |text: &Option<String>| text.as_deref().map(|text| moment(text, now)).transpose();
        // Clip to now: data from the future cannot be missing.
        let now_ms = now.timestamp().as_millisecond();
        let to_ms = when(&self.to)?.unwrap_or(now_ms).min(now_ms);
        let ago = to_ms.saturating_sub(milliseconds(self.since.unwrap_or(DAY)));
        // Nothing was shipped before 1970, and the calendars of engines do not go back indefinitely.
        let span = Span { from_ms: when(&self.from)?.unwrap_or(ago).max(0), to_ms };
        if span.from_ms >= span.to_ms {
            return Err(Failure::usage("--from must come before --to"));
        }
        Ok(span)
    }
}

/// Parses a span of two times of day (`03:00..03:20`, the most recent ones) or of two complete times.
///
/// # Errors
/// Fails if the text is not a span.
pub fn between(text: &str) -> Result<Span, String> {
    let now = Zoned::now();
    let (from, to) = text.split_once("..").ok_or("not a span such as 03:00..03:20")?;
    let ms = |text: &str| moment(text, &now).map_err(|failure| failure.to_string());
    let span = Span { from_ms: ms(from)?, to_ms: ms(to)? };
    if span.from_ms >= span.to_ms { Err("the first time must come before the second".into()) } else { Ok(span) }
}

/// Parses a duration such as `10s`, `15m`, `24h` or `7d`.
///
/// # Errors
/// Fails if the text is not a duration.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "not a time such as 15m, 24h or 7d".to_owned();
    let span: jiff::Span = text.parse().map_err(|_| wrong())?;
    let time = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(|_| wrong())?;
    time.try_into().map_err(|_| wrong())
}

fn milliseconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Parses a time with a zone, a local date and time, or a time of day (the most recent one). Returns milliseconds since
/// 1970.
fn moment(text: &str, now: &Zoned) -> Result<i64, Failure> {
    let time = clock::moment(text, now).ok_or_else(|| {
        Failure::usage(format!("'{text}' is not a time such as 03:12, '2026-11-21 03:12' or 2026-11-21T03:12:00Z"))
    })?;
    Ok(time.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(since: Option<&str>, from: Option<&str>, to: Option<&str>) -> Result<(String, String), Failure> {
        let now: Zoned = "2026-11-21T10:00:00+01:00[Europe/Berlin]".parse().unwrap();
        let since = since.map(|since| duration(since).unwrap());
        let period = Period { since, from: from.map(str::to_owned), to: to.map(str::to_owned) };
        let span = period.span_at(&now)?;
        Ok((crate::span::rfc3339(span.from_ms), crate::span::rfc3339(span.to_ms)))
    }

    #[test]
    fn a_day_unless_another_time_is_asked_for() {
        let of = |from: &str, to: &str| Ok((from.to_owned(), to.to_owned()));
        assert_eq!(span(None, None, None), of("2026-11-20T09:00:00Z", "2026-11-21T09:00:00Z"));
        assert_eq!(span(Some("7d"), None, None), of("2026-11-14T09:00:00Z", "2026-11-21T09:00:00Z"));
        assert_eq!(span(None, Some("03:12"), Some("04:00")), of("2026-11-21T02:12:00Z", "2026-11-21T03:00:00Z"));
        assert_eq!(span(None, None, Some("2026-11-19")), of("2026-11-17T23:00:00Z", "2026-11-18T23:00:00Z"));
        assert_eq!(span(Some("900000d"), None, None), of("1970-01-01T00:00:00Z", "2026-11-21T09:00:00Z"));
        assert_eq!(span(None, Some("03:12"), Some("2026-11-22")), of("2026-11-21T02:12:00Z", "2026-11-21T09:00:00Z"));
        assert!(span(None, Some("04:00"), Some("03:00")).is_err());
        assert!(span(None, Some("soon"), None).is_err());
    }

    #[test]
    fn durations_are_read() {
        assert_eq!(duration("15m"), Ok(Duration::from_secs(900)));
        assert_eq!(duration("90d"), Ok(Duration::from_secs(90 * 86_400)));
        for wrong in ["", "7", "-1h", "1 lightyear"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
