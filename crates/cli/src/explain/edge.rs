//! Refines the start and end of a cause to a second or two, with shorter windows than those in which it was found.

use super::windows::window;
use whyslow_diagnose::{FoundEpisode, RuleBook, findings_with_id};
use whyslow_documents::diagnosis::Finding;
use whyslow_model::catalogue::MachineInfo;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;
use whyslow_store::{Recording, StoreError};

/// Length of the short windows in nanoseconds: the shortest that the rules accept.
const SHORT_NS: u64 = 4 * 1_000_000_000;
/// Fraction of the worst impact at which a cause counts as noticeable, so that one second of it does not suffice in a
/// short window.
const PART: f64 = 0.3;
/// Maximum distance of the start or end from the windows in which the cause was found, in nanoseconds.
const EDGE_NS: i64 = 12 * 1_000_000_000;
/// Maximum length of an episode that is read once for both ends, in nanoseconds.
const ONCE_NS: i64 = 60 * 1_000_000_000;

/// Returns the start and end of the episode. `all` are the episodes of the whole recording.
pub fn refined(
    recording: &Recording,
    episode: &FoundEpisode,
    all: &[FoundEpisode],
    book: &RuleBook,
) -> Result<(i64, i64), StoreError> {
    let (start, end) = episode.span;
    let of = |window| Edge { window, episode, all, book };
    let (began, ended) = if end - start <= ONCE_NS {
        let both = of(read(recording, start, end)?);
        (both.first(), both.last())
    } else {
        (of(read(recording, start, start)?).first(), of(read(recording, end, end)?).last())
    };
    let (began, ended) = (began.unwrap_or(start), ended.unwrap_or(end));
    Ok(if began < ended { (began, ended) } else { (start, end) })
}

/// Reads everything recorded from just before `from` until just after `to`.
fn read(recording: &Recording, from: i64, to: i64) -> Result<Window, StoreError> {
    window(recording, &(from.saturating_sub(EDGE_NS)..=to.saturating_add(EDGE_NS)))
}

/// Time around the start or end of an episode.
struct Edge<'e> {
    window: Window,
    episode: &'e FoundEpisode,
    all: &'e [FoundEpisode],
    book: &'e RuleBook,
}

impl Edge<'_> {
    /// Returns the start. The first short window with a noticeable cause may begin before it: shortened to the minimum
    /// in which the cause is noticeable, the window ends once the cause has lasted long enough to be noticed.
    fn first(&self) -> Option<i64> {
        let (from, to) = self.short_windows().find(|(from, to)| self.is_felt(*from, *to))?;
        let shortest = (from + 1..=to).find(|to| self.is_felt(from, *to))?;
        let afterwards = (to + 1..self.samples().len().min(to + 1 + to - from)).map(|later| (to, later));
        Some(self.samples()[shortest - self.takes(afterwards).min(shortest - from)].wall_ns)
    }

    /// Returns the end, likewise, with the last short window shortened from its start.
    fn last(&self) -> Option<i64> {
        let (from, to) = self.short_windows().rev().find(|(from, to)| self.is_felt(*from, *to))?;
        let shortest = (from..to).rev().find(|from| self.is_felt(*from, to))?;
        let before = (from.saturating_sub(to - from)..from).rev().map(|earlier| (earlier, from));
        Some(self.samples()[shortest + self.takes(before).min(to - shortest)].wall_ns)
    }

    /// Returns the number of samples until the cause is noticeable: the length of the first noticeable one among ever
    /// longer windows. If there is none, the cause occurred at a single moment.
    fn takes(&self, mut windows: impl Iterator<Item = (usize, usize)>) -> usize {
        windows.find(|(from, to)| self.is_felt(*from, *to)).map_or(1, |(from, to)| to - from)
    }

    fn samples(&self) -> &[Snapshot] {
        self.window.snapshots()
    }

    /// Returns the first and last samples of the short windows.
    fn short_windows(&self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        let samples = self.samples();
        (0..samples.len()).filter_map(|from| {
            let is_there = |sample: &Snapshot| sample.boot_ns - samples[from].boot_ns >= SHORT_NS;
            Some((from, from + samples[from..].iter().position(is_there)?))
        })
    }

    /// Returns whether the cause is noticeable from one sample to another.
    fn is_felt(&self, from: usize, to: usize) -> bool {
        let is_it = |Finding { id, subject, .. }: &Finding| {
            let is_anothers = || self.all.iter().any(|other| other.has(id, subject));
            self.episode.has(id, subject) || (self.episode.has_namesake(id, subject) && !is_anothers())
        };
        let least = PART * self.episode.worst.impact;
        let found = findings_with_id(&self.episode.worst.id, &part(self.samples(), from, to), self.book);
        found.iter().any(|finding| finding.impact >= least && is_it(finding))
    }
}

/// Returns the window from one sample to another. Its first sample also gets the rows last read before it, except
/// events.
fn part(samples: &[Snapshot], from: usize, to: usize) -> Window {
    let mut window = samples[from..=to].to_vec();
    window[0].clear_events();
    // Rows that are read rarely are read together with the machine's; those from before the first sample are in that
    // one.
    let earlier = &samples[..from];
    let newest = earlier.iter().rfind(|sample| sample.the::<MachineInfo>().is_some());
    for sample in newest.into_iter().chain(earlier.first()) {
        window[0].carry_over(sample.clone());
    }
    Window::new(window)
}
