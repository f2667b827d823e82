//! Excerpts of an explanation, small enough for a page: a bad day has hundreds of episodes, each with all its findings.

use super::{Episode, Explanation};
use crate::diagnosis::{Diagnosis, Finding};

/// Number of episodes that a page lists: the most expensive ones.
pub const LISTED: usize = 1000;
/// Number of these for which it also has evidence and actions.
pub const WITH_EVIDENCE: usize = 50;
/// Number of interference pairs (victim and culprit group) per episode.
const MOST_PAIRS: usize = 3;

impl Explanation {
    /// Shortens the explanation: the most expensive episode keeps all its findings, the next ones keep their causes
    /// with effects and evidence, and most keep only a sentence.
    #[must_use]
    pub fn excerpt(self) -> Self {
        let mut ranked: Vec<(usize, Episode)> = self.episodes.into_iter().enumerate().collect();
        ranked.sort_by(|(_, a), (_, b)| b.rank().total_cmp(&a.rank()));
        let shortened = |(rank, (at, episode)): (usize, (usize, Episode))| match rank {
            0 => (at, episode),
            1..WITH_EVIDENCE => (at, episode.with_its_cause_only()),
            _ => (at, episode.with_its_cause_only().in_words()),
        };
        let mut all: Vec<(usize, Episode)> = ranked.into_iter().enumerate().map(shortened).collect();
        all.sort_by_key(|(at, _)| *at);
        Self { episodes: all.into_iter().map(|(_, episode)| episode).collect(), ..self }
    }
}

impl Episode {
    /// Returns the time it cost; an episode without a known cause ranks last.
    fn rank(&self) -> f64 {
        self.finding().map_or(-1.0, |_| self.lost_seconds())
    }

    /// Drops all findings but the episode's causes and their effects.
    fn with_its_cause_only(mut self) -> Self {
        let causes: Vec<String> = self.causes().into_iter().map(Finding::key).collect();
        let Diagnosis { host, window, verdict, mut findings, mut interference, .. } = self.diagnosis;
        findings.retain(|finding| {
            causes.contains(&finding.key()) || finding.explained_by.as_ref().is_some_and(|cause| causes.contains(cause))
        });
        let is_told = |key: &String| *key == self.key || Some(key) == causes.last();
        findings.iter_mut().filter(|finding| !is_told(&finding.key())).for_each(Finding::keep_words);
        interference.truncate(MOST_PAIRS);
        self.diagnosis = Diagnosis { host, findings, interference, ..Diagnosis::new(verdict, window) };
        self.is_excerpt = true;
        self
    }

    /// Drops evidence, actions and effects.
    fn in_words(mut self) -> Self {
        let causes: Vec<String> = self.causes().into_iter().map(Finding::key).collect();
        self.diagnosis.findings.retain(|finding| causes.contains(&finding.key()));
        self.diagnosis.findings.iter_mut().for_each(Finding::keep_words);
        self.diagnosis.interference.clear();
        self
    }
}

impl Finding {
    fn keep_words(&mut self) {
        self.culprits.truncate(1);
        self.evidence.clear();
        self.actions.clear();
        self.explains.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::{BlindSpot, Evidence, Origin, Reading, Subject, TimeSpan, Verdict};

    fn finding(id: &str, explained_by: Option<&str>) -> Finding {
        let evidence = Evidence {
            metric: "disk.queue".into(),
            value: Reading::Number(9.0),
            unit: String::new(),
            expected: String::new(),
            source: String::new(),
            how: String::new(),
        };
        let explained_by = explained_by.map(str::to_owned);
        Finding {
            id: id.into(),
            subject: Subject::host(),
            evidence: vec![evidence],
            explained_by,
            ..Finding::default()
        }
    }

    fn episode(seconds: f64) -> Episode {
        let findings = vec![finding("cause", None), finding("effect", Some("cause@host")), finding("other", None)];
        let spot = BlindSpot { what: "x".into(), why: "y".into(), remedy: String::new() };
        let window = TimeSpan::new(Origin::Recording, 10.0, 11);
        Episode {
            start: String::new(),
            end: String::new(),
            seconds,
            impact: 0.5,
            mean_impact: 0.5,
            key: "cause@host".into(),
            overlaps: Vec::new(),
            before: Vec::new(),
            diagnosis: Diagnosis { findings, blind_spots: vec![spot], ..Diagnosis::new(Verdict::Bottleneck, window) },
            is_excerpt: false,
        }
    }

    fn explanation(episodes: Vec<Episode>) -> Explanation {
        Explanation { samples: 1, episodes, ..Explanation::for_recording("r".to_owned()) }
    }

    /// Returns the ids of the episode's findings, each with the number of its pieces of evidence.
    fn told(episode: &Episode) -> Vec<(&str, usize)> {
        episode.diagnosis.findings.iter().map(|finding| (finding.id.as_str(), finding.evidence.len())).collect()
    }

    #[test]
    fn the_costlier_an_episode_is_the_more_of_it_is_kept() {
        // Each costs more than the one before.
        let all = explanation((1..=LISTED).map(|n| episode(n as f64)).collect());
        let excerpt = all.clone().excerpt();
        assert!(excerpt.episodes.is_sorted_by_key(|one| one.seconds as usize) && excerpt.episodes[0].seconds == 1.0);
        let [least, .., detailed, worst] = &excerpt.episodes[..] else { panic!("{}", excerpt.episodes.len()) };
        assert_eq!(worst, all.episodes.last().unwrap());
        assert_eq!(told(detailed), [("cause", 1), ("effect", 0)]);
        assert_eq!(told(least), [("cause", 0)]);
        assert!(detailed.is_excerpt && detailed.diagnosis.blind_spots.is_empty());
        let has_evidence = |one: &&Episode| one.finding().is_some_and(|finding| !finding.evidence.is_empty());
        assert_eq!(excerpt.episodes.iter().filter(has_evidence).count(), WITH_EVIDENCE);
    }

    #[test]
    fn the_way_to_a_cause_on_another_machine_is_kept() {
        let of = |capture: &str, id: &str, explained_by: Option<&str>| {
            let mut finding = finding(id, explained_by);
            finding.subject.capture = Some(capture.into());
            finding
        };
        let findings = vec![
            of("guest", "felt", Some("between@host in guest")),
            of("guest", "between", Some("cause@host in kvm1")),
            of("kvm1", "cause", None),
            of("kvm1", "other", None),
        ];
        let mut one = episode(1.0);
        (one.key, one.diagnosis.findings) = (findings[0].key(), findings);
        let costly = episode(9.0);
        let excerpt = explanation(vec![costly, one.clone()]).excerpt();
        assert_eq!(told(&excerpt.episodes[1]), [("felt", 1), ("between", 0), ("cause", 1)]);
        assert_eq!(excerpt.episodes[1].cause().map(|cause| cause.id.as_str()), Some("cause"));
        assert_eq!(told(&one.in_words()), [("felt", 0), ("between", 0), ("cause", 0)]);
    }

    #[test]
    fn episodes_stay_in_order() {
        let excerpt = explanation(vec![episode(3.0), episode(9.0)]).excerpt();
        assert_eq!(
            excerpt.episodes.iter().map(|one| (one.seconds, one.is_excerpt)).collect::<Vec<_>>(),
            [(3.0, true), (9.0, false)]
        );
        let json = serde_json::to_value(&excerpt).unwrap();
        assert!(json.get("left_out").is_none() && json["episodes"][1].get("is_excerpt").is_none());
    }
}
