//! History of a finding on a host: since when it exists, and whether the host loses more than before.

use super::super::minute;
use crate::cell::{boolean, double, text, timestamp};
use crate::span::{HOUR_MS, rfc3339};
use crate::{Failure, Fleet, Span, sql};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use whyslow_compare::stats::pieces::pieces;
use whyslow_compare::stats::{holm, ranks};

/// A host without a finding for this long had recovered from it.
const HEALTHY_MS: i64 = HOUR_MS;
/// Minimum share of that time that must have been observed: missing data is not health.
const LEAST_SEEN: f64 = 0.5;
const MINUTE_MS: i64 = 60_000;

/// Maximum probability, across all hosts, that a trend is due to chance.
const CHANCE: f64 = 0.05;
/// Minimum number of independent pieces in each half; with fewer, no difference could be significant.
const LEAST_PIECES: usize = 4;

/// Onset of a finding on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SickSince {
    /// Start of its first episode after a healthy hour, in milliseconds since 1970.
    pub ms: i64,
    /// Whether it may have begun earlier: the data examined contain no healthy hour before it.
    pub or_earlier: bool,
}

impl SickSince {
    pub(super) fn in_words(&self) -> String {
        if self.or_earlier { format!("{} or earlier", minute(self.ms)) } else { minute(self.ms) }
    }
}

/// Since when a host has been sick.
#[derive(JsonSchema, Serialize)]
pub(super) struct SinceDocument {
    /// The beginning of its first episode after a healthy hour.
    at: String,
    /// Whether it may have begun earlier: before that there is no healthy hour in what was looked at.
    or_earlier: bool,
}

impl Serialize for SickSince {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        SinceDocument { at: rfc3339(self.ms), or_earlier: self.or_earlier }.serialize(to)
    }
}

/// Whether a host loses more time in the second half of the span than in the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trend {
    /// More, beyond chance.
    Worse,
    /// Less, beyond chance.
    Better,
    /// No difference beyond chance.
    Steady,
    /// There is too little of one half to tell.
    Unknown,
}

impl Trend {
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Worse => "worse",
            Self::Better => "better",
            Self::Steady => "steady",
            Self::Unknown => "too short",
        }
    }
}

struct EpisodeTimes {
    at: i64,
    until: i64,
    began_before: bool,
}

/// Minutes and episodes of some hosts.
pub(super) struct History {
    span: Span,
    /// By host: time of each observed minute, and the share lost if it was judged.
    minutes: HashMap<String, Vec<Minute>>,
    /// By host and finding, in chronological order.
    episodes: HashMap<(String, String), Vec<EpisodeTimes>>,
}

struct Minute {
    at: i64,
    share: Option<f64>,
}

impl History {
    pub(super) fn read<'a>(fleet: &Fleet, hosts: impl Iterator<Item = &'a str> + Clone) -> Result<Self, Failure> {
        let span = fleet.span();
        let mut history = Self { span, minutes: HashMap::new(), episodes: HashMap::new() };
        for row in fleet.query(&sql::minutes(span, hosts.clone()))?.rows {
            let (Some(host), Some(at)) = (text(&row[0]), timestamp(&row[1])) else { continue };
            let judged = double(&row[3]).filter(|judged| *judged > 0.0);
            let share = judged.and_then(|judged| Some(double(&row[4])? / judged));
            history.minutes.entry(host.to_owned()).or_default().push(Minute { at, share });
        }
        for row in fleet.query(&sql::episodes(span, hosts))?.rows {
            let (Some(host), Some(finding)) = (text(&row[0]), text(&row[3])) else { continue };
            let (Some(at), Some(until)) = (timestamp(&row[1]), timestamp(&row[2])) else { continue };
            let episode = EpisodeTimes { at, until, began_before: boolean(&row[10]) == Some(true) };
            history.episodes.entry((host.to_owned(), finding.to_owned())).or_default().push(episode);
        }
        Ok(history)
    }

    /// Returns since when a host has a finding.
    pub(super) fn since(&self, host: &str, finding: &str) -> Option<SickSince> {
        let episodes = self.episodes.get(&(host.to_owned(), finding.to_owned()))?;
        let first = episodes.first()?;
        let (mut began, mut until, mut is_first) = (first, first.until, true);
        for episode in episodes {
            if episode.at - until >= HEALTHY_MS && self.is_observed(host, until, episode.at) {
                (began, is_first) = (episode, false);
            }
            until = until.max(episode.until);
        }
        let is_at_beginning = began.began_before || began.at - self.span.from_ms < HEALTHY_MS;
        Some(SickSince { ms: began.at, or_earlier: is_first && is_at_beginning })
    }

    fn is_observed(&self, host: &str, from: i64, to: i64) -> bool {
        let minutes = self.minutes.get(host).map_or(&[][..], Vec::as_slice);
        let seen = minutes.iter().filter(|minute| (from..to).contains(&minute.at)).count();
        seen as f64 * MINUTE_MS as f64 >= LEAST_SEEN * (to - from) as f64
    }

    /// Returns the trend of each host, corrected for multiple testing.
    pub(super) fn trends<'a>(&self, hosts: impl Iterator<Item = &'a str>) -> Vec<Trend> {
        let tests: Vec<Option<(f64, f64)>> = hosts.map(|host| self.test(host)).collect();
        let corrected = holm(&tests.iter().flatten().map(|(p, _)| *p).collect::<Vec<_>>());
        let mut corrected = corrected.iter();
        let trend = |test: &Option<(f64, f64)>| {
            let Some((_, shift)) = *test else { return Trend::Unknown };
            let is_beyond_chance = corrected.next().is_some_and(|test| test.p < CHANCE);
            match is_beyond_chance {
                true if shift > 0.0 => Trend::Worse,
                true if shift < 0.0 => Trend::Better,
                _ => Trend::Steady,
            }
        };
        tests.iter().map(trend).collect()
    }

    /// Tests the halves of the span: returns the probability that a difference at least as large is due to chance, and
    /// its size.
    fn test(&self, host: &str) -> Option<(f64, f64)> {
        let minutes = self.minutes.get(host)?;
        let middle = self.span.middle();
        let half = |is_second: bool| -> Vec<f64> {
            let of_half = minutes.iter().filter(|minute| (minute.at >= middle) == is_second);
            of_half.filter_map(|minute| minute.share).collect()
        };
        let [first, second] = pieces(&half(false), &half(true));
        if first.len().min(second.len()) < LEAST_PIECES {
            return None;
        }
        Some((ranks::p(&first, &second), ranks::shift(&first, &second)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOURS: i64 = 24;

    fn history(shares: impl Fn(i64) -> Option<f64>, episodes: &[(i64, i64, bool)]) -> History {
        let minutes = (0..HOURS * 60).filter_map(|at| Some(Minute { at: at * MINUTE_MS, share: Some(shares(at)?) }));
        let times = |&(from, to, began_before): &(i64, i64, bool)| EpisodeTimes {
            at: from * MINUTE_MS,
            until: to * MINUTE_MS,
            began_before,
        };
        History {
            span: Span { from_ms: 0, to_ms: HOURS * HOUR_MS },
            minutes: HashMap::from([("web".to_owned(), minutes.collect())]),
            episodes: HashMap::from([(("web".to_owned(), "x".to_owned()), episodes.iter().map(times).collect())]),
        }
    }

    fn since(history: &History) -> (i64, bool) {
        let since = history.since("web", "x").unwrap();
        (since.ms / MINUTE_MS, since.or_earlier)
    }

    #[test]
    fn a_finding_lasts_since_the_first_episode_after_a_healthy_hour() {
        let seen = |_| Some(0.0);
        assert_eq!(
            since(&history(seen, &[(100, 110, false), (300, 360, false), (360, 370, true), (400, 410, false)])),
            (300, false)
        );
        assert_eq!(since(&history(seen, &[(0, 10, true), (30, 600, false)])), (0, true));
        assert_eq!(since(&history(seen, &[(30, 40, false)])), (30, true), "before the span it may have had it too");
        assert_eq!(since(&history(seen, &[(100, 900, false), (200, 210, false), (930, 940, false)])), (100, false));
    }

    #[test]
    fn what_nobody_saw_is_not_health() {
        let gap = |at: i64| (!(110..300).contains(&at)).then_some(0.0);
        assert_eq!(since(&history(gap, &[(100, 110, false), (300, 310, false)])), (100, false));
    }

    #[test]
    fn a_trend_is_more_than_noise() {
        let trend = |shares: &dyn Fn(i64) -> Option<f64>| history(shares, &[]).trends(["web"].into_iter())[0];
        let noise = |at: i64| ((at * 7919) % 101) as f64 / 1000.0;
        assert_eq!(trend(&|at| Some(noise(at))), Trend::Steady);
        assert_eq!(trend(&|at| Some(noise(at) + if at >= 720 { 0.2 } else { 0.0 })), Trend::Worse);
        assert_eq!(trend(&|at| Some(noise(at) + if at < 720 { 0.2 } else { 0.0 })), Trend::Better);
        assert_eq!(trend(&|at| (at < 720).then_some(0.1)), Trend::Unknown);
    }
}
