//! When a cause began and ended, to a second or two: where it is first and last felt in windows shorter than those it was found in.

use std::time::Duration;
use whyslow_diagnose::{Lasting, RuleBook, diagnose};
use whyslow_model::catalogue::{Brief, EachFamily, Family, LogLine, MachineInfo};
use whyslow_model::diagnosis::{Finding, Origin};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;
use whyslow_store::{Recording, StoreError};

/// The length of the windows that tell it, nanoseconds: the shortest in which the rules see what they need.
const SHORT_NS: u64 = 4 * 1_000_000_000;
/// As a part of the impact where it was worst: a window of which a cause fills a second is not taken for one it began in.
const PART: f64 = 0.3;
/// How far from the edge of the windows it was found in a cause can begin or end, nanoseconds.
const EDGE_NS: i64 = 12 * 1_000_000_000;
/// What lasts no longer than this is read once, for both of its ends; nanoseconds.
const ONCE_NS: i64 = 60 * 1_000_000_000;

/// The samples between which a cause is felt as much as matters against where it was worst. `all` are the causes of the whole recording.
pub fn refined(
    recording: &Recording,
    lasting: &Lasting,
    all: &[Lasting],
    book: &RuleBook,
) -> Result<(i64, i64), StoreError> {
    let (start, end) = lasting.span;
    let of = |window| Edge { window, lasting, all, book };
    let (began, ended) = if end - start <= ONCE_NS {
        let both = of(read(recording, start, end)?);
        (both.first(), both.last())
    } else {
        (of(read(recording, start, start)?).first(), of(read(recording, end, end)?).last())
    };
    let (began, ended) = (began.unwrap_or(start), ended.unwrap_or(end));
    Ok(if began < ended { (began, ended) } else { (start, end) })
}

/// All that was recorded from just before one time until just after another.
fn read(recording: &Recording, from: i64, to: i64) -> Result<Window, StoreError> {
    let mut all = Window::default();
    let span = from.saturating_sub(EDGE_NS)..=to.saturating_add(EDGE_NS);
    recording.each_window(&span, Duration::MAX, &|_: &str| true, |window| {
        all = window;
        true
    })?;
    Ok(all)
}

/// The time around where a cause begins or ends.
struct Edge<'e> {
    window: Window,
    lasting: &'e Lasting,
    all: &'e [Lasting],
    book: &'e RuleBook,
}

impl Edge<'_> {
    /// When it began. Of the first short window in which it is felt it may fill but a part: the shortest beginning of that in
    /// which it is felt ends when it had lasted as long as it takes to be felt.
    fn first(&self) -> Option<i64> {
        let (from, to) = self.short_windows().find(|(from, to)| self.is_felt(*from, *to))?;
        let shortest = (from + 1..=to).find(|to| self.is_felt(from, *to))?;
        let afterwards = (to + 1..self.samples().len().min(to + 1 + to - from)).map(|later| (to, later));
        Some(self.samples()[shortest - self.takes(afterwards).min(shortest - from)].wall_ns)
    }

    /// When it ended: likewise, by the shortest end of the last short window in which it is felt.
    fn last(&self) -> Option<i64> {
        let (from, to) = self.short_windows().rev().find(|(from, to)| self.is_felt(*from, *to))?;
        let shortest = (from..to).rev().find(|from| self.is_felt(*from, to))?;
        let before = (from.saturating_sub(to - from)..from).rev().map(|earlier| (earlier, from));
        Some(self.samples()[shortest + self.takes(before).min(to - shortest)].wall_ns)
    }

    /// How many samples long a window must be for it to be felt there: as the first of these, which are of growing length and lie
    /// where it lasts. What is felt in none of them does not last: it happened at a moment, which one sample tells.
    fn takes(&self, mut windows: impl Iterator<Item = (usize, usize)>) -> usize {
        windows.find(|(from, to)| self.is_felt(*from, *to)).map_or(1, |(from, to)| to - from)
    }

    fn samples(&self) -> &[Snapshot] {
        self.window.snapshots()
    }

    /// The first and last samples of the short windows.
    fn short_windows(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        let samples = self.samples();
        (0..samples.len()).filter_map(|from| {
            let is_there = |sample: &Snapshot| sample.boot_ns - samples[from].boot_ns >= SHORT_NS;
            Some((from, from + samples[from..].iter().position(is_there)?))
        })
    }

    /// Whether the cause is felt from one sample to another.
    fn is_felt(&self, from: usize, to: usize) -> bool {
        let findings = diagnose(&part(self.samples(), from, to), Origin::Recording, self.book).findings;
        let is_it = |finding: &Finding| {
            let is_anothers = || self.all.iter().any(|other| other.has(finding));
            self.lasting.has(finding) || (self.lasting.has_namesake(finding) && !is_anothers())
        };
        findings.iter().any(|finding| finding.impact >= PART * self.lasting.impact && is_it(finding))
    }
}

/// The window from one sample to another. What was read before, and not in it, stands in its first sample; what happened before
/// that does not.
fn part(samples: &[Snapshot], from: usize, to: usize) -> Window {
    let mut window = samples[from..=to].to_vec();
    window[0].kernel.log.clear();
    window[0].task.brief.clear();
    // What is read seldom is read with the machine's identity; what was read seldom before the first sample stands in that.
    let earlier = &samples[..from];
    let newest = earlier.iter().rfind(|sample| sample.the::<MachineInfo>().is_some());
    for sample in newest.into_iter().chain(earlier.first()) {
        sample.clone().each_family(&mut Standing(&mut window[0]));
    }
    Window::new(window)
}

/// Rows of families that a sample lacks. What happens once does not stand.
struct Standing<'s>(&'s mut Snapshot);

impl EachFamily for Standing<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        let once = [LogLine::INFO.name, Brief::INFO.name].contains(&F::INFO.name);
        if !once && F::rows(self.0).is_empty() {
            *F::rows_mut(self.0) = std::mem::take(rows);
        }
    }
}
