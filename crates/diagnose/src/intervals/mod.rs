//! Judges a window interval by interval.
//!
//! A mean over a window hides what held for a part of it, and pairs numbers that never held together. So each interval is judged
//! separately with the same rules; a cause that is felt in some of them becomes a finding of that time, with the numbers of that
//! time. Findings that the rules make only in the mean, and refute in every interval, are dropped.

mod felt;
mod grid;
mod times;

use crate::document::findings_of;
use crate::facts::Facts;
use crate::merge::by_rank;
use crate::rule_context::RuleContext;
use crate::rulebook::RuleBook;
use crate::timeline::FoundEpisode;
use felt::{Felt, in_words, with_time};
use grid::{Grid, Part};
use std::collections::{BTreeMap, BTreeSet};
use times::{cadences, stalls};
use whyslow_documents::diagnosis::{Basis, Confidence, During, Finding, NotCleared, RuledOut};
use whyslow_model::human;
use whyslow_model::window::Window;

/// Minimum ratio of a part's impact to the mean impact for a cause in both to be attributed to the part.
const CONCENTRATED: f64 = 1.2;
/// Share of the intervals from which a condition holds throughout.
const THROUGHOUT: f64 = 0.9;
/// Minimum impact of a suspicion in a part to be worth reporting.
const SUSPICIOUS: f64 = 0.5;
/// Maximum number of such suspicions.
const MOST_SUSPICIONS: usize = 3;
/// Maximum number of episodes that are diagnosed separately.
const MOST_EPISODES: usize = 12;

/// Changes to the diagnosis of a window from judging its intervals.
pub(crate) struct ByInterval {
    /// All findings: those of the whole window that hold, and those of parts.
    pub findings: Vec<Finding>,
    /// Causes found in the mean and in no interval.
    pub refuted: Vec<RuledOut>,
    /// Resources in which something stands out in parts, and not throughout.
    pub not_cleared: Vec<NotCleared>,
    /// Facts of the worst part, if a condition holds only in a part.
    pub worst: Option<Facts>,
}

/// A window, and what was found in its mean.
pub(crate) struct Whole<'w> {
    /// The window.
    pub window: &'w Window,
    /// Facts of the window.
    pub facts: &'w Facts,
    /// Findings of the window.
    pub findings: &'w [Finding],
    /// Keys of the findings that are not from the time since boot.
    pub of_now: &'w BTreeSet<String>,
    /// Resources in which something stands out over the whole window; `None` if only findings are requested.
    pub not_cleared: Option<&'w [NotCleared]>,
    /// The rules.
    pub book: &'w RuleBook,
}

impl Whole<'_> {
    /// Returns the facts of a part, by the positions of its first and last snapshots. Commands name processes that still run at
    /// the end of the whole.
    fn facts_of(&self, from: usize, to: usize) -> Facts {
        Facts { running: self.facts.running.clone(), ..Facts::from_window(&self.window.part(from, to)) }
    }

    /// Returns the resources in which something stands out in a part.
    fn in_doubt(&self, facts: &Facts, findings: &[Finding]) -> Vec<NotCleared> {
        if self.not_cleared.is_none() {
            return Vec::new();
        }
        let context = RuleContext::new(&facts.host, &facts.host);
        let is_captured = !self.window.origins().is_empty();
        self.book.resources.not_cleared(&context, findings, is_captured)
    }
}

/// Judges the intervals of a window: for a capture, those of each tool; for samples, the time in which tasks stalled and the
/// rest. Returns `None` if there is only one interval, or all of them are like the mean.
pub(crate) fn judge(whole: &Whole<'_>) -> Option<ByInterval> {
    let is_captured = !whole.window.origins().is_empty();
    let all = if is_captured { cadences(whole.window) } else { stalls(whole.window).into_iter().collect() };
    if all.is_empty() {
        return None;
    }
    let grids = all.iter().map(|times| Grid::judged(whole, times)).collect();
    let judging = Judging { whole, grids };
    let result = judging.result();
    let is_like_the_mean =
        result.refuted.is_empty() && result.not_cleared.is_empty() && result.findings == whole.findings;
    (!is_like_the_mean).then_some(result)
}

/// Returns true if each rule with the finding's id has a known result on its subject.
fn is_decided(finding: &Finding, facts: &Facts, book: &RuleBook) -> bool {
    let mut is_seen = false;
    for rule in book.with_id(&finding.id) {
        for entity in facts.entities(rule.scope).iter().filter(|entity| entity.subject == finding.subject) {
            is_seen = true;
            if !rule.when.is_known(&RuleContext::new(entity, &facts.host)) {
                return false;
            }
        }
    }
    is_seen
}

struct Judging<'j> {
    whole: &'j Whole<'j>,
    grids: Vec<Grid<'j>>,
}

impl Judging<'_> {
    fn result(&self) -> ByInterval {
        let felt = self.felt();
        let is_throughout = |felt: &Felt<'_>| {
            let key = felt.key();
            let is_same = |finding: &&Finding| finding.is_felt() && finding.key() == key;
            let whole = self.whole.findings.iter().find(is_same);
            // A finding from a log has its own time.
            whole.is_some_and(|whole| {
                let is_measured = whole.impact_is == Basis::Measured;
                let is_concentrated = felt.episodes[0].worst.impact >= CONCENTRATED * whole.impact;
                !is_measured || !is_concentrated || felt.share() >= THROUGHOUT
            })
        };
        // An interval that shows an effect of what the mean shows may not show its cause.
        let is_effect = |felt: &Felt<'_>| {
            self.whole.findings.iter().any(|whole| whole.explained_by.is_some() && continues(&felt.episodes[0], whole))
        };
        let in_parts: Vec<&Felt<'_>> =
            felt.iter().filter(|felt| !is_throughout(felt) && !is_effect(felt)).take(MOST_EPISODES).collect();
        let mut findings: Vec<Finding> = Vec::new();
        let mut worst: Option<(usize, usize)> = None;
        for felt in in_parts {
            let (span, found) = self.diagnosed(felt);
            worst.get_or_insert(span);
            for finding in found {
                if !findings.iter().any(|other| other.key() == finding.key()) {
                    findings.push(self.with_culprits_of_the_mean(finding));
                }
            }
        }
        let of_parts: BTreeSet<String> = findings.iter().map(Finding::key).collect();
        let patterns = self.patterns();
        let mut refuted = Vec::new();
        for finding in self.whole.findings {
            let key = finding.key();
            if of_parts.contains(&key) {
                continue;
            }
            let is_felt_somewhere = felt.iter().any(|felt| felt.episodes.iter().any(|e| continues(e, finding)));
            if !is_felt_somewhere
                && !patterns.contains(&key)
                && self.grids.iter().any(|grid| grid.refuted.contains(&key))
            {
                let because = "the numbers that suggest it are averages over different times; they do not occur together in any interval";
                refuted.push(RuledOut { id: key, because: because.into() });
            } else {
                findings.push(finding.clone());
            }
        }
        findings.extend(self.suspicions(&findings));
        self.explain_by_patterns(&mut findings, &patterns);
        keep_known_links(&mut findings);
        let (not_cleared, doubtful) = self.not_cleared(&findings);
        let worst = worst.or(doubtful).map(|(from, to)| self.whole.facts_of(from, to));
        let is_changed = findings != self.whole.findings;
        let findings = if is_changed { by_rank(findings) } else { findings };
        ByInterval { findings, refuted, not_cleared, worst }
    }

    /// Returns the worst of the lasting conditions that are only suspicions in each part, if the mean shows nothing of them.
    fn suspicions(&self, known: &[Finding]) -> Vec<Finding> {
        let is_known = |id: &str| known.iter().chain(self.whole.findings).any(|finding| finding.id == id);
        let is_suspicion = |finding: &&Finding| {
            finding.confidence == Confidence::Low
                && finding.explained_by.is_none()
                && finding.impact_is == Basis::Measured
                && finding.impact >= SUSPICIOUS
                && !is_known(&finding.id)
        };
        let mut found: BTreeMap<String, Finding> = BTreeMap::new();
        for grid in &self.grids {
            let all = grid.parts.iter().flat_map(|part| part.findings.iter().filter(is_suspicion));
            let keys: BTreeSet<String> = all.map(Finding::key).collect();
            for key in keys {
                let has_it = |part: &Part| part.findings.iter().filter(is_suspicion).any(|f| f.key() == key);
                let Some(lasting) = grid.lasting(has_it) else { continue };
                let of_run = lasting.longest.iter().flat_map(|part| part.findings.iter().filter(|f| f.key() == key));
                let Some(worst) = of_run.max_by(|a, b| a.impact.total_cmp(&b.impact)) else { continue };
                let during = lasting.during;
                let is_longer =
                    found.get(&key).and_then(|f| f.during.as_ref()).is_none_or(|known| known.seconds < during.seconds);
                if is_longer {
                    let summary = with_time(&worst.summary, &self.in_words(&during));
                    found.insert(key, Finding { summary, during: Some(during), ..worst.clone() });
                }
            }
        }
        let mut found: Vec<Finding> = found.into_values().collect();
        found.sort_by(|a, b| b.impact.total_cmp(&a.impact));
        found.truncate(MOST_SUSPICIONS);
        found
    }

    /// Returns the keys of findings in the mean that are about a change over time, which no single interval shows: their
    /// conditions are unknown for the same window taken as one step.
    fn patterns(&self) -> BTreeSet<String> {
        let candidates: Vec<&Finding> = self
            .whole
            .findings
            .iter()
            .filter(|f| self.grids.iter().any(|grid| grid.refuted.contains(&f.key())))
            .collect();
        if candidates.is_empty() {
            return BTreeSet::new();
        }
        let facts = Facts::from_window(&self.whole.window.as_one_step());
        candidates
            .into_iter()
            .filter(|finding| !is_decided(finding, &facts, self.whole.book))
            .map(Finding::key)
            .collect()
    }

    /// Makes the findings of intervals effects of a pattern that the intervals belong to: each burst of writes saturates the
    /// disk.
    fn explain_by_patterns(&self, findings: &mut [Finding], patterns: &BTreeSet<String>) {
        for at in 0..findings.len() {
            if findings[at].during.is_none() || findings[at].explained_by.is_some() {
                continue;
            }
            let Finding { id, subject, .. } = &findings[at];
            let explains = |cause: &Finding| {
                cause.subject == *subject
                    && self.whole.book.with_id(&cause.id).iter().any(|rule| rule.explains.contains(id))
            };
            let cause = findings.iter().position(|f| patterns.contains(&f.key()) && explains(f));
            if let Some(cause) = cause {
                let effect = findings[at].key();
                findings[at].explained_by = Some(findings[cause].key());
                findings[cause].explains.push(effect);
            }
        }
    }

    /// Copies the culprits of the mean to a finding whose part names none: the tool that shows processes may have run at another
    /// time.
    fn with_culprits_of_the_mean(&self, finding: Finding) -> Finding {
        let whole = self.whole.findings.iter().find(|whole| whole.key() == finding.key());
        match whole.filter(|whole| finding.culprits.is_empty() && !whole.culprits.is_empty()) {
            Some(Finding { culprits, unattributed, actions, .. }) => Finding {
                culprits: culprits.clone(),
                unattributed: unattributed.clone(),
                actions: actions.clone(),
                ..finding
            },
            None => finding,
        }
    }

    /// Returns the causes that are felt in intervals, the most costly first; of several tools, uses the intervals of the one
    /// that shows the cause most often.
    fn felt(&self) -> Vec<Felt<'_>> {
        let mut by_key: BTreeMap<String, Felt<'_>> = BTreeMap::new();
        for grid in &self.grids {
            let mut of_grid: BTreeMap<String, Vec<FoundEpisode>> = BTreeMap::new();
            for episode in grid.episodes() {
                of_grid.entry(episode.worst.key()).or_default().push(episode);
            }
            for (key, mut episodes) in of_grid {
                episodes.sort_by(|a, b| b.lost_seconds().total_cmp(&a.lost_seconds()));
                let is_felt = |part: &&Part| {
                    let span = grid.times(part.from, part.to);
                    let within = episodes.iter().filter(|e| e.span.0 <= span.0 && span.1 <= e.span.1);
                    within.into_iter().any(|e| part.findings.iter().any(|f| f.is_felt() && continues(e, f)))
                };
                let parts: Vec<&Part> = grid.parts.iter().filter(is_felt).collect();
                let felt = Felt { grid, episodes, parts };
                match by_key.get(&key) {
                    Some(known) if known.parts.len() >= felt.parts.len() => {}
                    _ => drop(by_key.insert(key, felt)),
                }
            }
        }
        let mut all: Vec<Felt<'_>> = by_key.into_values().filter(|felt| !felt.parts.is_empty()).collect();
        all.sort_by(|a, b| b.lost_seconds().total_cmp(&a.lost_seconds()));
        all
    }

    /// Returns the cause and its effects, diagnosed over its most costly episode, or over the worst interval of that if the
    /// whole episode does not show it; with that span.
    fn diagnosed(&self, felt: &Felt<'_>) -> ((usize, usize), Vec<Finding>) {
        let episode = &felt.episodes[0];
        let mut parts = felt.grid.parts_in(episode.span);
        let first = parts.next().unwrap_or(felt.parts[0]);
        let last = parts.last().unwrap_or(first);
        let mut span = (first.from, last.to);
        let has_it = |found: &[Finding]| found.iter().any(|f| f.is_felt() && continues(episode, f));
        let mut found = if span == (first.from, first.to) {
            first.findings.clone()
        } else {
            findings_of(&self.whole.facts_of(span.0, span.1), self.whole.book)
        };
        if !has_it(&found) {
            let worst = felt.grid.parts_in(episode.worst_span).next().unwrap_or(first);
            span = (worst.from, worst.to);
            found.clone_from(&worst.findings);
        }
        let mut keys: BTreeSet<String> =
            found.iter().filter(|f| f.is_felt() && continues(episode, f)).map(Finding::key).collect();
        // Findings are ordered causes first, but an effect can precede one that explains it in turn.
        for _ in 0..found.len() {
            let before = keys.len();
            let effects = found.iter().filter(|f| f.explained_by.as_ref().is_some_and(|cause| keys.contains(cause)));
            keys.extend(effects.map(Finding::key).collect::<Vec<_>>());
            if keys.len() == before {
                break;
            }
        }
        found.retain(|finding| keys.contains(&finding.key()));
        for finding in &mut found {
            let during = felt.during();
            finding.summary = with_time(&finding.summary, &self.in_words(&during));
            finding.during = Some(during);
            if felt.is_brief() && finding.impact_is == Basis::Measured {
                finding.confidence = Confidence::Low;
            }
        }
        (span, found)
    }

    /// Describes when the condition held; for samples, for how long.
    fn in_words(&self, during: &During) -> String {
        if !self.whole.window.origins().is_empty() {
            return in_words(during);
        }
        let [seconds, all] =
            [during.seconds, self.whole.window.seconds()].map(|s| human::quantity(s.round().max(1.0), "s"));
        format!("for {seconds} of {all}")
    }

    /// Returns the resources in doubt in parts, with what stands out where they were in doubt for longest; and the first such
    /// part.
    fn not_cleared(&self, findings: &[Finding]) -> (Vec<NotCleared>, Option<(usize, usize)>) {
        let mut all = Vec::new();
        let mut first = None;
        let in_doubt = self.grids.iter().flat_map(|grid| &grid.parts).flat_map(|part| &part.in_doubt);
        let resources: BTreeSet<&str> = in_doubt.map(|entry| &*entry.id).collect();
        for resource in resources {
            let of_resource = |entry: &&NotCleared| entry.id == resource;
            let is_in_doubt = |part: &Part| part.in_doubt.iter().any(|entry| of_resource(&entry));
            let lasting = self.grids.iter().filter_map(|grid| grid.lasting(is_in_doubt));
            let Some(lasting) = lasting.max_by_key(|lasting| lasting.during.intervals) else { continue };
            let mut in_mean = self.whole.not_cleared.into_iter().flatten();
            let is_throughout = lasting.during.share >= THROUGHOUT && in_mean.any(|entry| entry.id == resource);
            if is_throughout || self.whole.book.resources.is_found(resource, findings) {
                continue;
            }
            let run = lasting.longest;
            let (from, to) = (run[0].from, run[run.len() - 1].to);
            let facts = self.whole.facts_of(from, to);
            let found = findings_of(&facts, self.whole.book);
            let of_run = self.whole.in_doubt(&facts, &found);
            let Some(entry) = of_run.iter().find(of_resource).or_else(|| run[0].in_doubt.iter().find(of_resource))
            else {
                continue;
            };
            first.get_or_insert((from, to));
            let during = lasting.during;
            let because = format!("{}, {}", entry.because, self.in_words(&during));
            all.push(NotCleared { because, during: Some(during), ..entry.clone() });
        }
        (all, first)
    }
}

fn part_seconds(window: &Window, from: usize, to: usize) -> f64 {
    let all = window.snapshots();
    (all[to].boot_ns - all[from].boot_ns) as f64 / 1e9
}

/// Returns true if a finding is of an episode's cause.
fn continues(episode: &FoundEpisode, finding: &Finding) -> bool {
    episode.continues_with(&finding.id, &finding.subject)
}

/// Drops links to findings that no longer exist.
fn keep_known_links(findings: &mut [Finding]) {
    let keys: BTreeSet<String> = findings.iter().map(Finding::key).collect();
    for finding in findings {
        finding.explains.retain(|key| keys.contains(key));
        finding.explained_by = finding.explained_by.take().filter(|key| keys.contains(key));
    }
}
