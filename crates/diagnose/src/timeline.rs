//! Turns what was felt in consecutive windows into episodes: a cause begins, lasts and ends.

use crate::document::findings;
use crate::rulebook::RuleBook;
use std::collections::BTreeSet;
use whyslow_documents::diagnosis::{Confidence, Finding, Subject};
use whyslow_model::catalogue::RecordedFinding;
use whyslow_model::value::State;
use whyslow_model::window::Window;

/// A cause that is not found for this long has ended, nanoseconds.
pub const MAX_GAP_NS: i64 = 15 * 1_000_000_000;

/// A cause of lost time that was felt in a window.
#[derive(Clone, Debug, PartialEq)]
pub struct FeltCause {
    /// Id of the finding.
    pub id: String,
    /// Entity that it was found on.
    pub subject: Subject,
    /// Share of the window that it cost.
    pub impact: f64,
    /// Its confidence; missing in recordings of older versions.
    pub confidence: Option<Confidence>,
    /// Name of the largest consumer, if one is known.
    pub culprit: Option<String>,
}

impl FeltCause {
    /// Returns the causes that were felt in a window. An effect whose cause is too small or too uncertain to be felt counts as a
    /// cause: leaving it out with its cause would lose the episode.
    pub fn all_of(window: &Window, book: &RuleBook) -> Vec<Self> {
        felt_causes(&findings(window, book))
    }

    /// Returns the finding's key.
    pub fn key(&self) -> String {
        self.subject.key_of(&self.id)
    }

    /// Converts it to a row of a recording.
    fn to_row(&self) -> RecordedFinding {
        let Subject { kind, name, pid, tid, netns, .. } = &self.subject;
        let number = |number: Option<u32>| number.map(f64::from).into();
        RecordedFinding {
            id: self.id.as_str().into(),
            kind: kind.as_str().into(),
            subject: name.as_str().into(),
            pid: number(*pid),
            tid: number(*tid),
            netns: netns.as_deref().map_or_else(State::default, State::from),
            impact: self.impact.into(),
            confidence: self.confidence.map(Confidence::word).into(),
            culprit: self.culprit.as_deref().into(),
            ..RecordedFinding::new(self.key().into())
        }
    }

    /// Converts it from a row of a recording.
    pub fn from_row(row: &RecordedFinding) -> Self {
        let text = |state: &State| state.get().unwrap_or_default().to_owned();
        Self {
            id: text(&row.id),
            subject: Subject {
                pid: row.pid.get().map(|pid| pid as u32),
                tid: row.tid.get().map(|tid| tid as u32),
                netns: row.netns.get().map(str::to_owned),
                ..Subject::new(&text(&row.kind), text(&row.subject))
            },
            impact: row.impact.get().unwrap_or(0.0),
            confidence: row.confidence.get().and_then(Confidence::named),
            culprit: row.culprit.get().map(str::to_owned),
        }
    }
}

/// Returns what a recorder stores about a window: the causes that were felt in it.
pub fn recorded_findings(window: &Window, book: &RuleBook) -> Vec<RecordedFinding> {
    let mut rows: Vec<_> = FeltCause::all_of(window, book).iter().map(FeltCause::to_row).collect();
    rows.sort_by(|a, b| a.key.cmp(&b.key));
    rows
}

/// A cause over the time it lasted. The document's `Episode` is made from it.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundEpisode {
    /// The cause at its worst.
    pub worst: FeltCause,
    /// Keys of all its findings: processes with the same name can be affected one after the other.
    keys: BTreeSet<String>,
    /// From the start of its first window to the end of its last, nanoseconds since 1970.
    pub span: (i64, i64),
    /// The window in which it was worst.
    pub worst_span: (i64, i64),
    /// Mean impact, including lulls.
    pub mean_impact: f64,
}

impl FoundEpisode {
    /// Returns true if a finding on this subject is part of this episode.
    pub fn has(&self, id: &str, subject: &Subject) -> bool {
        self.keys.contains(&subject.key_of(id))
    }

    /// Returns the time that it cost.
    pub fn lost_seconds(&self) -> f64 {
        self.mean_impact * (self.span.1 - self.span.0) as f64 / 1e9
    }

    /// Returns true if the finding is the same for another process with the same name.
    pub fn has_namesake(&self, id: &str, subject: &Subject) -> bool {
        self.worst.id == id && self.worst.subject.is_namesake_of(subject)
    }

    /// Returns true if what is felt on this subject just before or after it, or within it, has the same cause.
    pub fn continues_with(&self, id: &str, subject: &Subject) -> bool {
        self.has(id, subject) || self.has_namesake(id, subject)
    }
}

/// Combines the causes of consecutive windows into episodes.
#[derive(Debug)]
pub struct EpisodeBuilder {
    /// A cause that is not found for this long has ended, nanoseconds.
    gap_ns: i64,
    ongoing: Vec<FoundEpisode>,
    ended: Vec<FoundEpisode>,
}

impl Default for EpisodeBuilder {
    fn default() -> Self {
        Self { gap_ns: MAX_GAP_NS, ongoing: Vec::new(), ended: Vec::new() }
    }
}

impl EpisodeBuilder {
    /// Creates a timeline in which a cause has ended if one window does not show it.
    pub(crate) fn without_gaps() -> Self {
        Self { gap_ns: 0, ..Self::default() }
    }

    /// Adds what was felt in a window, given its start and end in nanoseconds since 1970. Windows must be added in order.
    pub fn add(&mut self, span: (i64, i64), felt: &[FeltCause]) {
        self.end_before(span.0.saturating_sub(self.gap_ns));
        let seconds = (span.1 - span.0) as f64 / 1e9;
        for cause in felt {
            let episode = match self.ongoing_with(cause, felt) {
                Some(at) => &mut self.ongoing[at],
                None => self.ongoing.push_mut(FoundEpisode {
                    worst: cause.clone(),
                    keys: BTreeSet::new(),
                    span,
                    worst_span: span,
                    mean_impact: 0.0,
                }),
            };
            // A sum of lost seconds until the episode has ended.
            episode.mean_impact += cause.impact * seconds;
            episode.span.1 = span.1;
            if cause.impact > episode.worst.impact {
                episode.worst = cause.clone();
                episode.worst_span = span;
            }
            episode.keys.insert(cause.key());
        }
    }

    /// Returns the episode that continues with this cause: its own, or that of a process with the same name that is no longer
    /// felt.
    fn ongoing_with(&self, cause: &FeltCause, felt: &[FeltCause]) -> Option<usize> {
        let own = self.ongoing.iter().position(|episode| episode.has(&cause.id, &cause.subject));
        own.or_else(|| {
            let is_over = |episode: &FoundEpisode| !felt.iter().any(|other| episode.has(&other.id, &other.subject));
            let is_namesake = |episode: &FoundEpisode| episode.has_namesake(&cause.id, &cause.subject);
            self.ongoing.iter().position(|episode| is_namesake(episode) && is_over(episode))
        })
    }

    /// Returns all episodes, by their start.
    pub fn finish(mut self) -> Vec<FoundEpisode> {
        self.end_before(i64::MAX);
        self.ended.sort_by_key(|episode| (episode.span, episode.worst.key()));
        self.ended
    }

    fn end_before(&mut self, time: i64) {
        for mut episode in self.ongoing.extract_if(.., |episode| episode.span.1 < time) {
            episode.mean_impact /= (episode.span.1 - episode.span.0).max(1) as f64 / 1e9;
            self.ended.push(episode);
        }
    }
}

/// Returns the felt findings that no other felt finding explains.
pub(crate) fn felt_causes(findings: &[Finding]) -> Vec<FeltCause> {
    let cause = |finding: &Finding| {
        let key = finding.explained_by.as_ref()?;
        findings.iter().find(|other| other.key() == *key)
    };
    // Bounded, so that findings that explain one another in a circle do not hang the caller.
    let has_felt_cause = |finding: &Finding| {
        std::iter::successors(cause(finding), |&above| cause(above)).take(findings.len()).any(Finding::is_felt)
    };
    let root = findings.iter().filter(|finding| finding.is_felt() && !has_felt_cause(finding));
    let cause = |f: &Finding| FeltCause {
        id: f.id.clone(),
        subject: f.subject.clone(),
        impact: f.impact * f.during.as_ref().map_or(1.0, |during| during.share),
        confidence: Some(f.confidence),
        culprit: f.culprits.first().map(|culprit| culprit.name.clone()),
    };
    root.map(cause).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn finding(id: &str, impact: f64, explained_by: Option<&str>) -> Finding {
        Finding {
            id: id.into(),
            subject: Subject::host(),
            impact,
            confidence: Confidence::High,
            explained_by: explained_by.map(str::to_owned),
            ..Finding::default()
        }
    }

    fn cause(id: &str, subject: Subject, impact: f64) -> FeltCause {
        FeltCause { id: id.into(), subject, impact, confidence: Some(Confidence::Medium), culprit: Some("dd".into()) }
    }

    fn timeline(windows: &[(i64, &[(&str, f64)])]) -> Vec<FoundEpisode> {
        let mut timeline = EpisodeBuilder::default();
        for (start, causes) in windows {
            let felt: Vec<_> = causes.iter().map(|(id, impact)| cause(id, Subject::host(), *impact)).collect();
            timeline.add((start * S, (start + 10) * S), &felt);
        }
        timeline.finish()
    }

    #[test]
    fn a_cause_begins_lasts_and_ends() {
        let all = timeline(&[
            (0, &[]),
            (10, &[("a", 0.2)]),
            (20, &[("a", 0.6), ("b", 0.1)]),
            (30, &[]),
            (40, &[]),
            (50, &[("a", 0.4)]),
        ]);
        let found: Vec<_> = all.iter().map(|e| (e.worst.key(), e.span.0 / S, e.span.1 / S, e.worst.impact)).collect();
        let expected = [("a@host", 10, 30, 0.6), ("b@host", 20, 30, 0.1), ("a@host", 50, 60, 0.4)];
        assert_eq!(found, expected.map(|(key, start, end, impact)| (key.to_owned(), start, end, impact)));
        assert!((all[0].mean_impact - 0.4).abs() < 1e-9);
        assert_eq!(all[0].worst_span, (20 * S, 30 * S));
    }

    #[test]
    fn a_short_interruption_does_not_end_an_episode() {
        let all = timeline(&[(0, &[("a", 0.5)]), (10, &[]), (20, &[("a", 0.5)])]);
        assert_eq!(all.len(), 1);
        assert_eq!((all[0].span.1, all[0].mean_impact), (30 * S, 10.0 / 30.0));
    }

    #[test]
    fn processes_with_one_name_affected_in_turn_are_one_episode() {
        let mut timeline = EpisodeBuilder::default();
        // Two at once are two.
        for (start, pids) in [(0, &[1][..]), (10, &[2, 3]), (20, &[3]), (30, &[4, 3])] {
            let of = |pid: u32| Subject { pid: Some(pid), ..Subject::new("process", "job") };
            let felt: Vec<_> = pids.iter().map(|pid| cause("hit", of(*pid), f64::from(*pid) / 10.0)).collect();
            timeline.add((start * S, (start + 10) * S), &felt);
        }
        let all = timeline.finish();
        let found: Vec<_> = all.iter().map(|e| (e.worst.key(), e.span.0 / S, e.span.1 / S)).collect();
        assert_eq!(found, [("hit@job[4]".to_owned(), 0, 40), ("hit@job[3]".to_owned(), 10, 40)]);
    }

    #[test]
    fn a_cause_is_the_same_after_it_was_recorded() {
        let thread = Subject { pid: Some(7), tid: Some(8), ..Subject::new("thread", "worker") };
        let interface = Subject { netns: Some("blue".into()), ..Subject::new("interface", "eth0") };
        for cause in [cause("a.b", thread, 0.25), cause("c.d", interface, 1.0), cause("e.f", Subject::host(), 0.5)] {
            assert_eq!(FeltCause::from_row(&cause.to_row()), cause);
        }
    }

    fn felt(findings: &[Finding]) -> Vec<String> {
        felt_causes(findings).iter().map(FeltCause::key).collect()
    }

    #[test]
    fn what_nobody_felt_and_the_effect_of_a_felt_cause_are_no_causes() {
        assert_eq!(felt(&[finding("slight", 0.01, None)]), [""; 0]);
        let effect = finding("effect", 0.9, Some("cause@host"));
        assert_eq!(felt(&[finding("cause", 0.5, None), effect]), ["cause@host"]);
        let remote = finding("effect", 0.9, Some("between@host"));
        let between = finding("between", 0.01, Some("cause@host"));
        assert_eq!(felt(&[finding("cause", 0.5, None), between, remote]), ["cause@host"]);
    }

    #[test]
    fn a_felt_effect_of_a_cause_that_is_not_felt_is_a_cause() {
        let effect = || finding("effect", 0.9, Some("cause@host"));
        assert_eq!(felt(&[finding("cause", 0.01, None), effect()]), ["effect@host"]);
        let unsure = Finding { confidence: Confidence::Low, ..finding("cause", 0.9, None) };
        assert_eq!(felt(&[unsure, effect()]), ["effect@host"]);
        let last = finding("last", 0.8, Some("effect@host"));
        assert_eq!(felt(&[finding("cause", 0.01, None), effect(), last]), ["effect@host"]);
    }
}
