//! Requested part of a host's data, and errors if it is not available.

use crate::recordings::for_people;
use crate::report::intervals;
use whyslow_series::ChartSpec;
use whyslow_serve::{ApiError, PageContent};
use whyslow_store::TimeRange;

/// Charts of a time span, and the requested content.
pub struct PagePart {
    /// Time of the first sample, in nanoseconds.
    pub from: Option<i64>,
    /// Time of the last sample, in nanoseconds.
    pub to: Option<i64>,
    /// Only samples after this time, to continue existing charts.
    pub since: Option<i64>,
    /// Approximate maximum number of intervals.
    pub intervals: Option<usize>,
    /// Requested charts.
    pub specs: Vec<&'static ChartSpec>,
    /// Requested content.
    pub content: PageContent,
}

impl PagePart {
    /// Returns the approximate maximum number of intervals for a number of samples. It does not depend on how many
    /// charts are requested at once.
    pub fn most_intervals(&self, samples: usize) -> usize {
        self.intervals.unwrap_or_else(|| intervals(samples, false))
    }

    /// Returns the requested span within `all`; without a start, it begins `length` before the end.
    ///
    /// # Errors
    /// Fails if it ends before it starts, or if there is no data for it.
    pub fn span(&self, all: &TimeRange, length: i64) -> Result<TimeRange, ApiError> {
        let to = self.to.unwrap_or(*all.end());
        let from = self.from.unwrap_or_else(|| to.min(*all.end()).saturating_sub(length));
        if self.to.is_some() && from > to {
            return Err(ApiError::BadRequest("from must come before to".into()));
        }
        if from > *all.end() || to < *all.start() {
            return Err(nothing_then(all));
        }
        Ok(from.max(*all.start())..=to.min(*all.end()))
    }
}

/// Returns the error that nothing was observed at the requested time.
pub fn nothing_then(all: &TimeRange) -> ApiError {
    let (start, end) = (for_people(*all.start()), for_people(*all.end()));
    ApiError::NotFound(format!("nothing was recorded then: what is there is from {start} to {end}"))
}

/// Converts a time to seconds since 1970, to the millisecond, as used in charts.
pub fn seconds(ns: i64) -> f64 {
    (ns as f64 / 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    #[test]
    fn a_part_is_cut_to_what_there_is() {
        let part = |from: Option<i64>, to: Option<i64>| {
            let at = |second: i64| second * S;
            let part = PagePart {
                from: from.map(at),
                to: to.map(at),
                since: None,
                intervals: None,
                specs: Vec::new(),
                content: PageContent::Everything,
            };
            part.span(&(at(100)..=at(500)), at(60)).map(|span| (span.start() / S, span.end() / S))
        };
        assert_eq!(part(None, None), Ok((440, 500)));
        assert_eq!(part(None, Some(200)), Ok((140, 200)));
        assert_eq!(part(None, Some(900)), Ok((440, 500)));
        assert_eq!(part(Some(0), Some(900)), Ok((100, 500)));
        assert_eq!(part(Some(490), None), Ok((490, 500)));
        assert!(matches!(part(Some(300), Some(200)), Err(ApiError::BadRequest(_))));
        assert!(matches!(part(Some(600), Some(700)), Err(ApiError::NotFound(_))));
        assert!(matches!(part(Some(600), None), Err(ApiError::NotFound(_))));
        assert!(matches!(part(Some(0), Some(99)), Err(ApiError::NotFound(_))));
    }

    #[test]
    fn times_are_those_of_charts() {
        assert_eq!(seconds(1_795_279_400_123_456_789).to_string(), "1795279400.123");
    }
}
