//! Forecasts of when a resource runs out: file systems, memory, the endurance of a disk.
//!
//! The slope over days is the Theil-Sen estimator. Its interval assumes that days are independent, which the fill level
//! of a disk is not: it is the sum of everything written. So the interval is extended to include that of the growth
//! over equal parts of the time, which are independent even then. If that interval includes zero, there is no date.
//!
//! A clean-up or restart begins a new series. If the resource is cleaned up again and again, only the levels before
//! each clean-up count: they show when a clean-up will come too late.

use super::why::Interval;
use crate::stats::{CONFIDENCE, Estimate, median, paired, trend};
use schemars::JsonSchema;
use serde::Serialize;

const DAY_MS: f64 = 86_400_000.0;
/// Minimum number of days, or of clean-ups, that show a trend.
const FEWEST: usize = 7;
/// Minimum number of parts whose signed ranks can exclude zero: 2 / 2⁶ = 0.03.
const LEAST_PARTS: usize = 6;
/// Maximum number of parts: each is then many days long, so that a weekly rhythm does not show.
const MOST_PARTS: usize = 12;
/// A fall by this many usual steps, and by this share of the capacity, is a clean-up.
const FALL_STEPS: f64 = 5.0;
const FALL_SHARE: f64 = 0.03;
/// Another clean-up is expected until this many times the longest interval between clean-ups has passed.
const OVERDUE: f64 = 1.5;
/// Multiple of the observed time beyond which no forecast is made.
const REACH: f64 = 4.0;

/// When something will be full.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Forecast {
    /// What the data say.
    pub outlook: Outlook,
    /// Growth per day, with the interval; in the unit of the values.
    pub per_day: Option<Interval>,
    /// The level it starts from.
    pub level: f64,
    /// The capacity.
    pub capacity: f64,
    /// The earliest time at which it will be full, milliseconds since 1970; `None` where it does not grow, or too far off.
    pub earliest_ms: Option<i64>,
    /// The latest; `None` where the growth may be nothing, or too far off.
    pub latest_ms: Option<i64>,
    /// How many clean-ups or restarts there were.
    pub falls: usize,
    /// Days, or levels before clean-ups, that the slope is of.
    pub points: usize,
}

/// What the data say of the future.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outlook {
    /// It is full.
    Full,
    /// It will be full between two dates.
    RunsOut,
    /// It may grow or not: not full before a date.
    NotBefore,
    /// It does not grow, or so slowly that it will last for many times as long as was observed.
    Lasts,
    /// There is too little to say.
    TooShort,
}

/// Forecasts when a growing level reaches its capacity. The points are times in milliseconds since 1970 and levels, in
/// order of time; several on one day are replaced by their median.
pub fn forecast(points: &[(i64, f64)], capacity: f64) -> Forecast {
    let days = daily(points);
    let starts = falls(&days, capacity);
    let trend: &[(f64, f64)];
    let peaks: Vec<(f64, f64)>;
    match starts[..] {
        [] => trend = &days,
        [.., last] if days.len() - last >= FEWEST && are_over(&starts, &days) => trend = &days[last..],
        _ => {
            peaks = starts.iter().map(|start| days[start - 1]).collect();
            trend = &peaks;
        }
    }
    let level = days.last().map_or(f64::NAN, |(_, level)| *level);
    let (from, base) = trend.last().copied().unwrap_or((f64::NAN, level));
    let now = points.last().map_or(0, |(at, _)| *at);
    let unknown = Forecast {
        outlook: Outlook::TooShort,
        per_day: None,
        level,
        capacity,
        earliest_ms: None,
        latest_ms: None,
        falls: starts.len(),
        points: trend.len(),
    };
    if level >= capacity {
        return Forecast { outlook: Outlook::Full, ..unknown };
    }
    let Some(growth) = growth(trend).filter(|_| trend.len() >= FEWEST) else { return unknown };
    let observed = trend[trend.len() - 1].0 - trend[0].0;
    let left = (capacity - base).max(0.0);
    let after = |per_day: f64| (per_day > 0.0).then(|| left / per_day).filter(|days| *days <= REACH * observed);
    let date = |days: f64| now.max(((from + days) * DAY_MS) as i64);
    let (earliest, latest) = (after(growth.high), after(growth.low));
    let outlook = match (earliest, latest) {
        (Some(_), Some(_)) => Outlook::RunsOut,
        (Some(_), None) => Outlook::NotBefore,
        _ => Outlook::Lasts,
    };
    Forecast {
        outlook,
        per_day: Some(growth.into()),
        earliest_ms: earliest.map(date),
        latest_ms: latest.map(date),
        ..unknown
    }
}

/// Returns the median level of each day, with the day's number.
fn daily(points: &[(i64, f64)]) -> Vec<(f64, f64)> {
    let finite: Vec<(i64, f64)> = points.iter().copied().filter(|(_, level)| level.is_finite()).collect();
    let days = finite.chunk_by(|a, b| day(a.0) == day(b.0));
    let of_day = |points: &[(i64, f64)]| {
        let mut levels: Vec<f64> = points.iter().map(|(_, level)| *level).collect();
        levels.sort_by(f64::total_cmp);
        (day(points[0].0), median(&levels))
    };
    days.map(of_day).collect()
}

fn day(at_ms: i64) -> f64 {
    (at_ms as f64 / DAY_MS).floor()
}

/// Returns the days that begin with a much lower level than the day before.
fn falls(days: &[(f64, f64)], capacity: f64) -> Vec<usize> {
    let steps: Vec<f64> = days.windows(2).map(|pair| pair[1].1 - pair[0].1).collect();
    let mut sizes: Vec<f64> = steps.iter().map(|step| step.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let least = (FALL_STEPS * median(&sizes)).max(FALL_SHARE * capacity);
    steps.iter().enumerate().filter(|(_, step)| -**step >= least).map(|(at, _)| at + 1).collect()
}

/// Returns whether the clean-ups have stopped.
fn are_over(starts: &[usize], days: &[(f64, f64)]) -> bool {
    let gaps = starts.windows(2).map(|pair| days[pair[1]].0 - days[pair[0]].0);
    let longest = gaps.fold(0.0, f64::max);
    let since = |start: &usize| days[days.len() - 1].0 - days[*start].0;
    starts.last().is_some_and(|last| since(last) > OVERDUE * longest)
}

/// Returns the growth per day, with an interval that does not need days to be independent of one another.
fn growth(points: &[(f64, f64)]) -> Option<Estimate> {
    let slope = trend::theil_sen(points, CONFIDENCE)?;
    let parts = (points.len() - 1).min(MOST_PARTS);
    if parts < LEAST_PARTS {
        return None;
    }
    let at = |part: usize| points[part * (points.len() - 1) / parts];
    let grown = |part: usize| {
        let (from, to) = (at(part), at(part + 1));
        (to.1 - from.1) / (to.0 - from.0)
    };
    let grown: Vec<f64> = (0..parts).map(grown).collect();
    let of_parts = paired::estimate(&grown, CONFIDENCE)?;
    Some(Estimate { shift: slope.shift, low: slope.low.min(of_parts.low), high: slope.high.max(of_parts.high) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::noise::Noise;

    const GIB: f64 = 1_073_741_824.0;

    fn days(levels: impl IntoIterator<Item = f64>) -> Vec<(i64, f64)> {
        levels.into_iter().enumerate().map(|(day, level)| (day as i64 * 86_400_000, level)).collect()
    }

    fn days_ahead(of: Option<i64>, from: usize) -> f64 {
        of.map_or(f64::NAN, |at| at as f64 / DAY_MS - from as f64)
    }

    #[test]
    fn steady_growth_has_a_date() {
        // 100 GiB and 2 more each day for 30 days: 158 on the last day; 42 of 200 are left, for 21 days.
        let full = forecast(&days((0..30).map(|day| (100.0 + 2.0 * f64::from(day)) * GIB)), 200.0 * GIB);
        assert_eq!((full.outlook, full.points, full.falls), (Outlook::RunsOut, 30, 0));
        assert!((days_ahead(full.earliest_ms, 29) - 21.0).abs() < 1e-6, "{full:?}");
        assert_eq!(full.earliest_ms, full.latest_ms);
        // With noise the forecast is a range that contains the true date 19 times of 20.
        let hits = (0..40).filter(|seed| {
            let mut noise = Noise::new(*seed, 0.0);
            // A random walk: the amount written each day varies by half.
            let mut level = 100.0;
            let levels: Vec<f64> = (0..30)
                .map(|_| {
                    level += 2.0 + noise.next();
                    level
                })
                .collect();
            let last = levels[29];
            let full = forecast(&days(levels), 200.0);
            let truth = (200.0 - last) / 2.0;
            days_ahead(full.earliest_ms, 29) <= truth
                && (full.latest_ms.is_none() || truth <= days_ahead(full.latest_ms, 29))
        });
        assert!(hits.count() >= 36);
    }

    #[test]
    fn what_may_not_grow_has_no_date() {
        // Alternately up and down.
        let flat = forecast(&days((0..30).map(|day| if day % 2 == 0 { 100.0 } else { 101.0 })), 200.0);
        assert!(matches!(flat.outlook, Outlook::Lasts | Outlook::NotBefore) && flat.latest_ms.is_none(), "{flat:?}");
        let shrinks = forecast(&days((0..30).map(|day| 100.0 - f64::from(day))), 200.0);
        assert_eq!((shrinks.outlook, shrinks.earliest_ms), (Outlook::Lasts, None));
        // One percent a month, with 95 left.
        let wear = forecast(&days((0..60).map(|day| 4.0 + f64::from(day / 30))), 100.0);
        assert_eq!((wear.outlook, wear.latest_ms), (Outlook::Lasts, None));
        assert_eq!(forecast(&days([1.0, 2.0, 3.0]), 10.0).outlook, Outlook::TooShort);
        assert_eq!(forecast(&[], 10.0).outlook, Outlook::TooShort);
        assert_eq!(forecast(&days([1.0, 10.0]), 10.0).outlook, Outlook::Full);
    }

    #[test]
    fn a_random_walk_without_drift_is_not_taken_for_growth() {
        let wrong = (0..100).filter(|seed| {
            let mut noise = Noise::new(*seed, 0.0);
            let mut level = 150.0;
            let levels: Vec<f64> = (0..30)
                .map(|_| {
                    level += noise.next();
                    level
                })
                .collect();
            forecast(&days(levels), 200.0).outlook == Outlook::RunsOut
        });
        assert!(wrong.count() <= 7);
    }

    #[test]
    fn a_clean_up_begins_anew() {
        // 10 a day to 150, then down to 20, and 5 a day from there: 75 on the last of 12 days; 125 are left for 25 days.
        let levels = (0..15).map(|day| 10.0 * f64::from(day + 1)).chain((0..12).map(|day| 20.0 + 5.0 * f64::from(day)));
        let full = forecast(&days(levels), 200.0);
        assert_eq!((full.outlook, full.falls, full.points), (Outlook::RunsOut, 1, 12));
        assert!((days_ahead(full.earliest_ms, 26) - 25.0).abs() < 1e-6, "{full:?}");
    }

    #[test]
    fn what_is_cleaned_up_each_week_is_judged_by_its_peaks() {
        // Grows by 10 a day for six days and falls back; the same each week.
        let weeks =
            |more: f64| days((0..70).map(move |day| 50.0 + 10.0 * f64::from(day % 7) + more * f64::from(day / 7)));
        let steady = forecast(&weeks(0.0), 200.0);
        assert_eq!((steady.outlook, steady.falls, steady.points), (Outlook::Lasts, 9, 9));
        // Each week leaves 7 more behind: a day 1, so peaks reach 200 from 110 + 56 = 166 on day 62 in 34 days.
        let grows = forecast(&weeks(7.0), 200.0);
        assert_eq!(grows.outlook, Outlook::RunsOut);
        assert!((grows.per_day.unwrap().estimate.unwrap() - 1.0).abs() < 1e-9, "{grows:?}");
        assert!((days_ahead(grows.earliest_ms, 62) - 34.0).abs() < 1e-6, "{grows:?}");
    }
}
