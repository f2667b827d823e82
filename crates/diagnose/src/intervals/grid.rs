//! The intervals of one tool, each judged by itself.

use super::felt::during;
use super::times::has_no_other_times;
use super::{Whole, is_decided, part_seconds};
use crate::document::findings_of;
use crate::timeline::{FoundEpisode, Timeline, felt_causes};
use std::collections::BTreeSet;
use whyslow_model::diagnosis::{During, Finding, NotCleared};
use whyslow_model::window::Window;

/// The most parts that a window is judged in; of more intervals, several are one part.
const MOST_PARTS: usize = 200;
/// Seconds and intervals that a part must have to clear a resource or to put it in doubt: about as long as the windows that recordings are
/// judged in. One blocked process in one of two samples is no more than that.
pub(super) const CLEARING: (f64, usize) = (10.0, 4);
/// Seconds from which a single interval is long enough for that.
const LONG_SECONDS: f64 = 60.0;

/// The consecutive parts of a window at the times of one tool.
pub(super) struct Grid<'w> {
    pub(super) window: &'w Window,
    pub(super) parts: Vec<Part>,
    /// Parts long enough to clear a resource.
    pub(super) long: Vec<LongPart>,
    /// The keys of findings in the mean that hold in no part, and are refuted in each.
    pub(super) refuted: BTreeSet<String>,
}

/// A part of the window, by the positions of its first and last snapshots, and what was found in it.
pub(super) struct Part {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) findings: Vec<Finding>,
}

/// A part of the window, and the resources that are in doubt in it.
pub(super) struct LongPart {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) in_doubt: Vec<NotCleared>,
}

impl<'w> Grid<'w> {
    pub(super) fn judged(whole: &Whole<'w>, times: &[usize]) -> Self {
        let step = (times.len() - 1).div_ceil(MOST_PARTS).max(1);
        let mut ends: Vec<usize> = times.iter().copied().step_by(step).collect();
        if let Some(last) = times.last().filter(|last| ends.last() != Some(last)) {
            ends.push(*last);
        }
        let mut grid = Self { window: whole.window, parts: Vec::new(), long: Vec::new(), refuted: BTreeSet::new() };
        let mut refuted = whole.of_now.clone();
        for pair in ends.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let facts = whole.facts_of(from, to);
            let findings = findings_of(&facts, whole.book);
            refuted.retain(|key| {
                let is_it = |finding: &&Finding| finding.key() == *key;
                !findings.iter().any(|finding| is_it(&finding))
                    && whole.findings.iter().find(is_it).is_some_and(|finding| is_decided(finding, &facts, whole.book))
            });
            if whole.seconds(from, to) >= LONG_SECONDS {
                grid.long.push(LongPart { from, to, in_doubt: whole.in_doubt(&facts, &findings) });
            }
            grid.parts.push(Part { from, to, findings });
        }
        if grid.parts.len() > 1 && has_no_other_times(whole.window, times) {
            grid.refuted = refuted;
        }
        if grid.long.is_empty() {
            grid.long = long_parts(whole, &ends);
        }
        grid
    }

    /// What is felt in each part, as episodes.
    pub(super) fn episodes(&self) -> Vec<FoundEpisode> {
        let mut timeline = Timeline::without_gaps();
        for part in &self.parts {
            timeline.add(self.times(part.from, part.to), &felt_causes(&part.findings));
        }
        timeline.finish()
    }

    /// The longest run of consecutive parts in which something holds.
    pub(super) fn longest_run(&self, holds: impl Fn(&Part) -> bool) -> Option<&[Part]> {
        let runs = self.parts.chunk_by(|a, b| holds(a) == holds(b)).filter(|run| holds(&run[0]));
        runs.max_by(|a, b| self.seconds(a).total_cmp(&self.seconds(b)))
    }

    /// The length of a run of parts.
    pub(super) fn seconds(&self, run: &[Part]) -> f64 {
        part_seconds(self.window, run[0].from, run[run.len() - 1].to)
    }

    /// When a run of parts was.
    pub(super) fn during(&self, run: &[Part]) -> During {
        let first = self.parts.iter().position(|part| part.from == run[0].from).unwrap_or(0);
        During {
            intervals: run.len(),
            first_interval: first + 1,
            last_interval: first + run.len(),
            of_intervals: self.parts.len(),
            ..during(self.window, run[0].from, run[run.len() - 1].to)
        }
    }

    /// The time since boot at two snapshots.
    pub(super) fn times(&self, from: usize, to: usize) -> (i64, i64) {
        let time = |at: usize| i64::try_from(self.window.snapshots()[at].boot_ns).unwrap_or(i64::MAX);
        (time(from), time(to))
    }

    /// The parts that lie within a span.
    pub(super) fn parts_in(&self, span: (i64, i64)) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| {
            let (from, to) = self.times(part.from, part.to);
            span.0 <= from && to <= span.1
        })
    }
}

/// Consecutive parts that are each long enough to clear a resource.
fn long_parts(whole: &Whole<'_>, ends: &[usize]) -> Vec<LongPart> {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    let mut first = 0;
    for last in 0..ends.len() {
        if last - first >= CLEARING.1 && whole.seconds(ends[first], ends[last]) >= CLEARING.0 {
            spans.push((ends[first], ends[last]));
            first = last;
        }
    }
    if spans.len() < 2 {
        return Vec::new();
    }
    let judged = |(from, to): (usize, usize)| {
        let facts = whole.facts_of(from, to);
        LongPart { from, to, in_doubt: whole.in_doubt(&facts, &findings_of(&facts, whole.book)) }
    };
    spans.into_iter().map(judged).collect()
}
