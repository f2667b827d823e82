//! Causes that are felt in some of the intervals, and when, in words.

use super::grid::{Grid, Part};
use super::part_seconds;
use crate::timeline::FoundEpisode;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use whyslow_documents::diagnosis::During;
use whyslow_model::window::Window;

/// A single interval shorter than this, in seconds, is only a suspicion.
pub(super) const BRIEF_SECONDS: f64 = 5.0;

/// A cause that is felt in some of the intervals.
pub(super) struct Felt<'g> {
    pub(super) grid: &'g Grid<'g>,
    /// Its episodes, by the time that they cost.
    pub(super) episodes: Vec<FoundEpisode>,
    /// Parts in which it is felt.
    pub(super) parts: Vec<&'g Part>,
}

impl Felt<'_> {
    pub(super) fn key(&self) -> String {
        self.episodes[0].worst.key()
    }

    pub(super) fn share(&self) -> f64 {
        self.parts.len() as f64 / self.grid.parts.len() as f64
    }

    pub(super) fn lost_seconds(&self) -> f64 {
        self.episodes.iter().map(FoundEpisode::lost_seconds).sum()
    }

    pub(super) fn during(&self) -> During {
        During { episodes: self.episodes.len(), ..self.grid.during(&self.parts) }
    }

    /// Returns true if it is only one short interval among others.
    pub(super) fn is_brief(&self) -> bool {
        let [part] = self.parts[..] else { return false };
        let is_captured = !self.grid.window.origins().is_empty();
        let is_one_step = is_captured || part.to - part.from == 1;
        is_one_step && self.grid.parts.len() > 2 && self.grid.seconds(self.parts.iter().copied()) < BRIEF_SECONDS
    }
}

/// Returns a span of the window, without its intervals.
pub(super) fn during(window: &Window, from: usize, to: usize) -> During {
    let time = |at: usize| {
        let wall_ns = Some(window.snapshots()[at].wall_ns).filter(|ns| *ns != 0)?;
        Timestamp::from_nanosecond(wall_ns.into()).ok().map(|time| format!("{time:.3}"))
    };
    During {
        start: time(from),
        end: time(to),
        from: part_seconds(window, 0, from),
        to: part_seconds(window, 0, to),
        seconds: part_seconds(window, from, to),
        share: part_seconds(window, from, to) / window.seconds(),
        intervals: 1,
        first_interval: 1,
        last_interval: 1,
        of_intervals: 1,
        episodes: 1,
    }
}

/// Adds the time to the first sentence of a summary.
pub(super) fn with_time(summary: &str, time: &str) -> String {
    let starts_anew = |at: &usize| summary[at + 2..].starts_with(char::is_uppercase);
    let end = summary.match_indices(". ").map(|(at, _)| at).find(starts_anew);
    let end = end.unwrap_or(summary.trim_end_matches('.').len());
    format!("{}, {time}{}", &summary[..end], if end < summary.len() { &summary[end..] } else { "." })
}

/// Formats as `from 14:00:01 to 14:20:01, the last 2 of 4 intervals`: the times as the capture prints them.
pub(super) fn in_words(during: &During) -> String {
    let During { intervals, first_interval: first, last_interval: last, of_intervals: all, .. } = *during;
    let intervals = match intervals {
        _ if last + 1 - first != intervals => format!("{intervals} of {all} intervals"),
        1 if last == all => format!("the last of {all} intervals"),
        1 if first == 1 => format!("the first of {all} intervals"),
        1 => format!("interval {first} of {all}"),
        _ if last == all => format!("the last {intervals} of {all} intervals"),
        _ if first == 1 => format!("the first {intervals} of {all} intervals"),
        _ => format!("intervals {first} to {last} of {all}"),
    };
    let time = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<Timestamp>().ok());
    match time(&during.start).zip(time(&during.end)) {
        Some((start, end)) => {
            let [start, end] = [start, end].map(|time| time.to_zoned(TimeZone::UTC));
            let format = if start.date() == end.date() { "%H:%M:%S" } else { "%Y-%m-%d %H:%M:%S" };
            format!("from {} to {}, {intervals}", start.strftime(format), end.strftime(format))
        }
        None => format!("in {intervals}"),
    }
}
