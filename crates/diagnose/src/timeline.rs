//! Turns diagnoses of consecutive windows into episodes: a cause begins, lasts and ends.

use crate::document::is_felt;
use std::collections::BTreeSet;
use whyslow_model::diagnosis::{Diagnosis, Finding};

/// A cause that is not found for this long has ended, nanoseconds.
const LULL_NS: i64 = 15 * 1_000_000_000;

/// A cause over the time it lasted. The document's `Episode` is made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundEpisode {
    /// The key of the finding where it was worst.
    pub key: String,
    /// The keys of all its findings: processes with the same name can be affected one after the other.
    keys: BTreeSet<String>,
    /// From the start of its first window to the end of its last, nanoseconds since 1970.
    pub span: (i64, i64),
    /// The window in which it was worst.
    pub worst_span: (i64, i64),
    /// The impact there.
    pub impact: f64,
    /// The mean impact, lulls included.
    pub mean_impact: f64,
    /// The diagnosis of that window.
    pub diagnosis: Diagnosis,
}

impl FoundEpisode {
    /// Whether the finding is part of this episode.
    pub fn has(&self, finding: &Finding) -> bool {
        self.keys.contains(&finding.key())
    }

    /// Whether the finding is the same for another process with the same name.
    pub fn has_namesake(&self, finding: &Finding) -> bool {
        let worst = self.diagnosis.findings.iter().find(|worst| worst.key() == self.key);
        worst.is_some_and(|worst| worst.id == finding.id && worst.subject.is_namesake_of(&finding.subject))
    }
}

/// Puts diagnoses of consecutive windows together.
#[derive(Debug, Default)]
pub struct Timeline {
    ongoing: Vec<FoundEpisode>,
    ended: Vec<FoundEpisode>,
}

impl Timeline {
    /// Adds the diagnosis of a window, given its start and end in nanoseconds since 1970. Windows must be added in order.
    pub fn add(&mut self, span: (i64, i64), diagnosis: &Diagnosis) {
        self.end_before(span.0.saturating_sub(LULL_NS));
        let felt = felt_causes(&diagnosis.findings);
        let seconds = (span.1 - span.0) as f64 / 1e9;
        for finding in &felt {
            let key = finding.key();
            let episode = match self.gone_on(finding, &felt) {
                Some(at) => &mut self.ongoing[at],
                None => self.ongoing.push_mut(FoundEpisode {
                    key: key.clone(),
                    keys: BTreeSet::new(),
                    span,
                    worst_span: span,
                    impact: 0.0,
                    mean_impact: 0.0,
                    diagnosis: diagnosis.clone(),
                }),
            };
            // A sum of lost seconds until the episode has ended.
            episode.mean_impact += finding.impact * seconds;
            episode.span.1 = span.1;
            if finding.impact > episode.impact {
                episode.impact = finding.impact;
                episode.worst_span = span;
                episode.key.clone_from(&key);
                episode.diagnosis = diagnosis.clone();
            }
            episode.keys.insert(key);
        }
    }

    /// The episode that continues with this finding: its own, or that of a process with the same name that is no longer felt.
    fn gone_on(&self, finding: &Finding, felt: &[&Finding]) -> Option<usize> {
        let own = self.ongoing.iter().position(|episode| episode.has(finding));
        own.or_else(|| {
            let is_over = |episode: &FoundEpisode| !felt.iter().any(|other| episode.has(other));
            self.ongoing.iter().position(|episode| episode.has_namesake(finding) && is_over(episode))
        })
    }

    /// All episodes, by their start.
    pub fn finish(mut self) -> Vec<FoundEpisode> {
        self.end_before(i64::MAX);
        self.ended.sort_by(|a, b| (a.span, &a.key).cmp(&(b.span, &b.key)));
        self.ended
    }

    fn end_before(&mut self, time: i64) {
        for mut episode in self.ongoing.extract_if(.., |episode| episode.span.1 < time) {
            episode.mean_impact /= (episode.span.1 - episode.span.0).max(1) as f64 / 1e9;
            self.ended.push(episode);
        }
    }
}

/// Felt findings that no other felt finding explains. An effect whose cause is too small or too uncertain to be felt stands
/// for itself: leaving it out with its cause would lose the episode.
fn felt_causes(findings: &[Finding]) -> Vec<&Finding> {
    let felt: Vec<&Finding> = findings.iter().filter(|finding| is_felt(finding)).collect();
    let cause = |finding: &Finding| {
        let key = finding.explained_by.as_ref()?;
        findings.iter().find(|other| other.key() == *key)
    };
    // Bounded, so that findings which explain one another in a circle do not hang the caller.
    let has_felt_cause = |finding: &Finding| {
        std::iter::successors(cause(finding), |&above| cause(above)).take(findings.len()).any(is_felt)
    };
    felt.into_iter().filter(|finding| !has_felt_cause(finding)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RuleBook, diagnose};
    use whyslow_model::diagnosis::{Basis, Confidence, Finding, Origin, Subject};
    use whyslow_model::window::Window;

    const S: i64 = 1_000_000_000;

    fn finding(id: &str, impact: f64, explained_by: Option<&str>) -> Finding {
        Finding {
            id: id.into(),
            subject: Subject::host(),
            culprits: vec![],
            impact,
            impact_is: Basis::Measured,
            confidence: Confidence::High,
            summary: String::new(),
            evidence: vec![],
            explains: vec![],
            explained_by: explained_by.map(str::to_owned),
            unattributed: None,
            more: 0,
            how_bad: None,
            since: None,
            actions: vec![],
        }
    }

    fn timeline(windows: &[(i64, &[(&str, f64)])]) -> Vec<FoundEpisode> {
        let nothing = diagnose(&Window::default(), Origin::Recording, &RuleBook::built_in());
        let mut timeline = Timeline::default();
        for (start, findings) in windows {
            let findings = findings.iter().map(|(id, impact)| finding(id, *impact, None)).collect();
            let diagnosis = Diagnosis { findings, ..nothing.clone() };
            timeline.add((start * S, (start + 10) * S), &diagnosis);
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
        let told: Vec<_> = all.iter().map(|l| (l.key.as_str(), l.span.0 / S, l.span.1 / S, l.impact)).collect();
        assert_eq!(told, [("a@host", 10, 30, 0.6), ("b@host", 20, 30, 0.1), ("a@host", 50, 60, 0.4)]);
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
        let nothing = diagnose(&Window::default(), Origin::Recording, &RuleBook::built_in());
        let mut timeline = Timeline::default();
        // Two at once are two.
        for (start, pids) in [(0, &[1][..]), (10, &[2, 3]), (20, &[3]), (30, &[4, 3])] {
            let of = |pid: u32| Subject { pid: Some(pid), ..Subject::new("process", "job") };
            let hit = |pid: &u32| Finding { subject: of(*pid), ..finding("hit", f64::from(*pid) / 10.0, None) };
            let findings = pids.iter().map(hit).collect();
            timeline.add((start * S, (start + 10) * S), &Diagnosis { findings, ..nothing.clone() });
        }
        let all = timeline.finish();
        let told: Vec<_> = all.iter().map(|l| (l.key.as_str(), l.span.0 / S, l.span.1 / S)).collect();
        assert_eq!(told, [("hit@job[4]", 0, 40), ("hit@job[3]", 10, 40)]);
    }

    /// The keys of the episodes of one window with these findings.
    fn episodes_of(findings: Vec<Finding>) -> Vec<String> {
        let nothing = diagnose(&Window::default(), Origin::Recording, &RuleBook::built_in());
        let mut timeline = Timeline::default();
        timeline.add((0, 10 * S), &Diagnosis { findings, ..nothing });
        timeline.finish().into_iter().map(|episode| episode.key).collect()
    }

    #[test]
    fn what_nobody_felt_and_the_effect_of_a_felt_cause_are_no_episodes() {
        assert_eq!(episodes_of(vec![finding("slight", 0.01, None)]), [""; 0]);
        let effect = finding("effect", 0.9, Some("cause@host"));
        assert_eq!(episodes_of(vec![finding("cause", 0.5, None), effect]), ["cause@host"]);
        let remote = finding("effect", 0.9, Some("between@host"));
        let between = finding("between", 0.01, Some("cause@host"));
        assert_eq!(episodes_of(vec![finding("cause", 0.5, None), between, remote]), ["cause@host"]);
    }

    #[test]
    fn a_felt_effect_of_a_cause_that_is_not_felt_is_an_episode() {
        let effect = || finding("effect", 0.9, Some("cause@host"));
        assert_eq!(episodes_of(vec![finding("cause", 0.01, None), effect()]), ["effect@host"]);
        let unsure = Finding { confidence: Confidence::Low, ..finding("cause", 0.9, None) };
        assert_eq!(episodes_of(vec![unsure, effect()]), ["effect@host"]);
        let last = finding("last", 0.8, Some("effect@host"));
        assert_eq!(episodes_of(vec![finding("cause", 0.01, None), effect(), last]), ["effect@host"]);
    }
}
