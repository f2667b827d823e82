//! The intervals of one tool, each judged separately.

use super::felt::{BRIEF_SECONDS, during};
use super::times::{has_no_other_times, is_gap};
use super::{Whole, is_decided, part_seconds};
use crate::document::findings_of;
use crate::timeline::{EpisodeBuilder, FoundEpisode, felt_causes};
use std::collections::BTreeSet;
use whyslow_documents::diagnosis::{During, Finding, NotCleared};
use whyslow_model::window::Window;

/// Maximum number of parts that a window is judged in; beyond that, several intervals form one part.
const MOST_PARTS: usize = 200;
/// Minimum seconds and intervals that a condition must last to be reported for a part: one blocked process in one of two samples
/// is no evidence.
const LASTING: (f64, usize) = (BRIEF_SECONDS, 3);
/// Minimum seconds for a single interval to be long enough.
const LONG_SECONDS: f64 = 60.0;
/// Share of the intervals from which an intermittent condition is reported, however short each time is.
const OFTEN: f64 = 0.2;

/// Share of the time from which a condition of several intervals is reported, however short the capture is.
const MOST: f64 = 0.5;

/// Consecutive parts of a window at the times of one tool.
pub(super) struct Grid<'w> {
    pub(super) window: &'w Window,
    pub(super) parts: Vec<Part>,
    /// Keys of findings in the mean that hold in no part, and are refuted in each.
    pub(super) refuted: BTreeSet<String>,
}

/// A part of the window, by the positions of its first and last snapshots, and its findings.
pub(super) struct Part {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) findings: Vec<Finding>,
    /// Resources in which something stands out.
    pub(super) in_doubt: Vec<NotCleared>,
}

/// Parts in which a condition holds that lasts or occurs often.
pub(super) struct Lasting<'g> {
    /// Longest run of consecutive parts.
    pub(super) longest: &'g [Part],
    /// Time span and intervals of all of them.
    pub(super) during: During,
}

impl<'w> Grid<'w> {
    pub(super) fn judged(whole: &Whole<'w>, times: &[usize]) -> Self {
        let step = (times.len() - 1).div_ceil(MOST_PARTS).max(1);
        let mut ends: Vec<usize> = times.iter().copied().step_by(step).collect();
        if let Some(last) = times.last().filter(|last| ends.last() != Some(last)) {
            ends.push(*last);
        }
        let mut grid = Self { window: whole.window, parts: Vec::new(), refuted: BTreeSet::new() };
        let mut refuted = whole.of_now.clone();
        for pair in ends.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            if is_gap(whole.window, from, to) {
                continue;
            }
            let facts = whole.facts_of(from, to);
            let findings = findings_of(&facts, whole.book);
            refuted.retain(|key| {
                let is_it = |finding: &&Finding| finding.key() == *key;
                !findings.iter().any(|finding| is_it(&finding))
                    && whole.findings.iter().find(is_it).is_some_and(|finding| is_decided(finding, &facts, whole.book))
            });
            let in_doubt = whole.in_doubt(&facts, &findings);
            grid.parts.push(Part { from, to, findings, in_doubt });
        }
        if grid.parts.len() > 1 && has_no_other_times(whole.window, times) {
            grid.refuted = refuted;
        }
        grid
    }

    /// Returns the causes felt in each part, as episodes.
    pub(super) fn episodes(&self) -> Vec<FoundEpisode> {
        let mut timeline = EpisodeBuilder::without_gaps();
        for part in &self.parts {
            timeline.add(self.times(part.from, part.to), &felt_causes(&part.findings));
        }
        timeline.finish()
    }

    /// Returns the parts in which a condition holds, if it lasts or occurs often.
    pub(super) fn lasting(&self, holds: impl Fn(&Part) -> bool) -> Option<Lasting<'_>> {
        let runs: Vec<&[Part]> =
            self.parts.chunk_by(|a, b| holds(a) == holds(b)).filter(|run| holds(&run[0])).collect();
        let seconds = |run: &[Part]| self.seconds(run.iter());
        let longest = *runs.iter().max_by(|a, b| seconds(a).total_cmp(&seconds(b)))?;
        let all: Vec<&Part> = runs.iter().copied().flatten().collect();
        let during = During { episodes: runs.len(), ..self.during(&all) };
        let holds_for = |share: f64| during.seconds >= share * self.window.seconds();
        let lasts = self.is_long(longest.iter())
            || (holds_for(MOST) && all.len() > 1)
            || (holds_for(OFTEN) && self.is_long(all.into_iter()));
        lasts.then_some(Lasting { longest, during })
    }

    /// Returns true if the parts are long enough together for a condition in them to be reported.
    fn is_long<'p>(&self, parts: impl Iterator<Item = &'p Part> + Clone) -> bool {
        // A part of samples contains several intervals.
        let is_captured = !self.window.origins().is_empty();
        let intervals = |part: &Part| if is_captured { 1 } else { part.to - part.from };
        let seconds = self.seconds(parts.clone());
        seconds >= LONG_SECONDS || (seconds >= LASTING.0 && parts.map(intervals).sum::<usize>() >= LASTING.1)
    }

    /// Returns the total length of the parts: there may be a restart between two of them.
    pub(super) fn seconds<'p>(&self, parts: impl Iterator<Item = &'p Part>) -> f64 {
        parts.map(|part| part_seconds(self.window, part.from, part.to)).sum()
    }

    /// Returns the time span and the intervals of some parts, in order; there is at least one.
    pub(super) fn during(&self, parts: &[&Part]) -> During {
        let at = |part: &Part| self.parts.iter().position(|other| other.from == part.from).unwrap_or(0) + 1;
        let (first, last) = (parts[0], parts[parts.len() - 1]);
        let seconds = self.seconds(parts.iter().copied());
        During {
            seconds,
            share: seconds / self.window.seconds(),
            intervals: parts.len(),
            first_interval: at(first),
            last_interval: at(last),
            of_intervals: self.parts.len(),
            ..during(self.window, first.from, last.to)
        }
    }

    /// Returns the time since boot at two snapshots.
    pub(super) fn times(&self, from: usize, to: usize) -> (i64, i64) {
        let time = |at: usize| i64::try_from(self.window.snapshots()[at].boot_ns).unwrap_or(i64::MAX);
        (time(from), time(to))
    }

    /// Iterates over the parts within a span.
    pub(super) fn parts_in(&self, span: (i64, i64)) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| {
            let (from, to) = self.times(part.from, part.to);
            span.0 <= from && to <= span.1
        })
    }
}
