//! Judges a window interval by interval.
//!
//! A mean over a window hides what held for a part of it, and pairs numbers that never held together. So each interval is judged by
//! itself with the same rules; what is felt in some of them becomes a finding of that time, with the numbers of that time. What the
//! rules find in the mean alone, and refute in every interval, is dropped.

use crate::document::findings_of;
use crate::facts::Facts;
use crate::merge::by_rank;
use crate::rule_context::RuleContext;
use crate::rulebook::RuleBook;
use crate::timeline::{FoundEpisode, Timeline, felt_causes};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{EachFamily, Family, Pressure};
use whyslow_model::diagnosis::{Basis, Confidence, During, Finding, NotCleared, RuledOut};
use whyslow_model::human;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Counter;
use whyslow_model::window::Window;

/// The most parts that a window is judged in; of more intervals, several are one part.
const MOST_PARTS: usize = 200;
/// The most tools with intervals of their own.
const MOST_GRIDS: usize = 3;
/// Seconds and intervals that a part must have to clear a resource or to put it in doubt: about as long as the windows that recordings are
/// judged in. One blocked process in one of two samples is no more than that.
const CLEARING: (f64, usize) = (10.0, 4);
/// Seconds from which a single interval is long enough for that.
const LONG_SECONDS: f64 = 60.0;
/// How many times the mean impact that in its part must be for a cause that the mean shows as well to be of that part.
const CONCENTRATED: f64 = 1.25;
/// Share of the intervals from which something is so throughout.
const THROUGHOUT: f64 = 0.8;
/// Share of a step for which tasks stalled, from which the step differs from a calm one.
const STALLED: f64 = 0.5;
/// A single interval shorter than this, in seconds, is no more than a suspicion.
const BRIEF_SECONDS: f64 = 5.0;
/// The most episodes that are diagnosed by themselves.
const MOST_EPISODES: usize = 12;

/// What judging the intervals changes in the diagnosis of a window.
pub(crate) struct ByInterval {
    /// All findings: those of the whole window that hold, and those of parts.
    pub findings: Vec<Finding>,
    /// What was found in the mean and in no interval.
    pub refuted: Vec<RuledOut>,
    /// The resources that are cleared on average and not throughout.
    pub not_cleared: Vec<NotCleared>,
    /// The facts of the worst part, if something is only so in a part.
    pub worst: Option<Facts>,
}

/// A window, and what was found in its mean.
pub(crate) struct Whole<'w> {
    /// The window.
    pub window: &'w Window,
    /// What is known of it.
    pub facts: &'w Facts,
    /// What was found.
    pub findings: &'w [Finding],
    /// The keys of those findings that are not of the time since boot.
    pub of_now: &'w BTreeSet<String>,
    /// The resources that are cleared.
    pub cleared: &'w [RuledOut],
    /// The rules.
    pub book: &'w RuleBook,
}

impl Whole<'_> {
    /// The facts of a part, by the positions of its first and last snapshots. Commands name processes that still run at the end of the whole.
    fn facts_of(&self, from: usize, to: usize) -> Facts {
        Facts { running: self.facts.running.clone(), ..Facts::of(&self.window.part(from, to)) }
    }

    fn seconds(&self, from: usize, to: usize) -> f64 {
        part_seconds(self.window, from, to)
    }

    /// The resources that the mean clears and a part does not.
    fn in_doubt(&self, facts: &Facts, findings: &[Finding]) -> Vec<NotCleared> {
        let context = RuleContext::new(&facts.host, &facts.host);
        let is_captured = !self.window.origins().is_empty();
        let mut in_doubt = self.book.resources.not_cleared(&context, findings, is_captured);
        in_doubt.retain(|entry| self.cleared.iter().any(|cleared| cleared.id == entry.id));
        in_doubt
    }
}

/// Judges the intervals of a window: of a capture, those of each tool; of samples, the time in which tasks stalled and the rest. `None` if
/// there is only one interval, or all of them are like the mean.
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

/// The ends of the parts of a window in which tasks stalled for at least half of each step, and of the others; `None` if it is all of one
/// kind. A calm or steady window is judged only once, as observing must not become the load.
fn stalls(window: &Window) -> Option<Vec<usize>> {
    let all = window.snapshots();
    let is_stalled = |pair: &[Snapshot]| {
        let (a, b) = (pair[0].the::<Pressure>()?, pair[1].the::<Pressure>()?);
        let seconds = (pair[1].boot_ns - pair[0].boot_ns) as f64;
        let share = |f: fn(&Pressure) -> Counter| Some(f(b).get()?.checked_sub(f(a).get()?)? as f64 / seconds);
        let most = [share(|p| p.cpu_some), share(|p| p.memory_some), share(|p| p.io_some)].into_iter().flatten();
        most.reduce(f64::max).map(|most| most >= STALLED)
    };
    let steps: Vec<Option<bool>> = all.windows(2).map(is_stalled).collect();
    let changes = (1..steps.len()).filter(|at| steps[*at] != steps[at - 1]);
    let ends: Vec<usize> = std::iter::once(0).chain(changes).chain([all.len().saturating_sub(1)]).collect();
    (ends.len() > 2).then_some(ends)
}

/// The positions of the snapshots at which the intervals of each tool begin and end, the tool with the most intervals first.
fn cadences(window: &Window) -> Vec<Vec<usize>> {
    let mut all = Cadences { snapshots: window.snapshots(), found: Vec::new() };
    Snapshot::default().each_family(&mut all);
    let mut found = all.found;
    found.sort_by_key(|times| std::cmp::Reverse(times.len()));
    let mut chosen: Vec<Vec<usize>> = Vec::new();
    for times in found {
        // Levels have no reading at the beginning of the first interval.
        let is_contained = |other: &Vec<usize>| times.iter().filter(|at| !other.contains(at)).count() <= 1;
        let is_as_long = |other: &Vec<usize>| times.len() + 1 >= other.len();
        if !chosen.iter().any(|other| is_contained(other) && is_as_long(other)) && chosen.len() < MOST_GRIDS {
            chosen.push(times);
        }
    }
    chosen
}

/// Whether everything in the window that was read more than once was read at these times: what the mean of one tool's run and that of
/// another's suggest together is not refuted by the intervals of one.
fn has_no_other_times(window: &Window, times: &[usize]) -> bool {
    struct OtherTimes<'w>(&'w [Snapshot], &'w [usize], bool);
    impl EachFamily for OtherTimes<'_> {
        fn family<F: Family>(&mut self, _: &mut Vec<F>) {
            let read: Vec<usize> = (0..self.0.len()).filter(|at| !F::rows(&self.0[*at]).is_empty()).collect();
            self.2 |= !F::INFO.events && read.len() > 1 && read.iter().any(|at| !self.1.contains(at));
        }
    }
    let mut others = OtherTimes(window.snapshots(), times, false);
    Snapshot::default().each_family(&mut others);
    !others.2
}

/// Collects at which snapshots the families have rows.
struct Cadences<'w> {
    snapshots: &'w [Snapshot],
    found: Vec<Vec<usize>>,
}

impl EachFamily for Cadences<'_> {
    fn family<F: Family>(&mut self, _: &mut Vec<F>) {
        if F::INFO.events {
            return;
        }
        let mut readings: BTreeMap<&F::Key, usize> = BTreeMap::new();
        let mut times = Vec::new();
        for (at, snapshot) in self.snapshots.iter().enumerate() {
            let rows = F::rows(snapshot);
            rows.iter().for_each(|row| *readings.entry(row.key()).or_default() += 1);
            if !rows.is_empty() {
                times.push(at);
            }
        }
        // Two intervals of one entity, at least.
        if readings.values().any(|count| *count >= 3) && !self.found.contains(&times) {
            self.found.push(times);
        }
    }
}

/// The consecutive parts of a window at the times of one tool.
struct Grid<'w> {
    window: &'w Window,
    parts: Vec<Part>,
    /// Parts long enough to clear a resource.
    long: Vec<LongPart>,
    /// The keys of findings in the mean that hold in no part, and are refuted in each.
    refuted: BTreeSet<String>,
}

/// A part of the window, by the positions of its first and last snapshots, and what was found in it.
struct Part {
    from: usize,
    to: usize,
    findings: Vec<Finding>,
}

/// A part of the window, and the resources that are in doubt in it.
struct LongPart {
    from: usize,
    to: usize,
    in_doubt: Vec<NotCleared>,
}

impl<'w> Grid<'w> {
    fn judged(whole: &Whole<'w>, times: &[usize]) -> Self {
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
    fn episodes(&self) -> Vec<FoundEpisode> {
        let mut timeline = Timeline::without_gaps();
        for part in &self.parts {
            timeline.add(self.times(part.from, part.to), &felt_causes(&part.findings));
        }
        timeline.finish()
    }

    /// The time since boot at two snapshots.
    fn times(&self, from: usize, to: usize) -> (i64, i64) {
        let time = |at: usize| i64::try_from(self.window.snapshots()[at].boot_ns).unwrap_or(i64::MAX);
        (time(from), time(to))
    }

    /// The parts that lie within a span.
    fn parts_in(&self, span: (i64, i64)) -> impl Iterator<Item = &Part> {
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

fn part_seconds(window: &Window, from: usize, to: usize) -> f64 {
    let all = window.snapshots();
    (all[to].boot_ns - all[from].boot_ns) as f64 / 1e9
}

/// Whether each rule that could find it is known on its subject.
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

/// A cause that is felt in some of the intervals.
struct Felt<'g> {
    grid: &'g Grid<'g>,
    /// Its episodes, by the time that they cost.
    episodes: Vec<FoundEpisode>,
    /// The parts in which it is felt.
    parts: Vec<&'g Part>,
}

impl Felt<'_> {
    fn key(&self) -> String {
        self.episodes[0].worst.key()
    }

    fn share(&self) -> f64 {
        self.parts.len() as f64 / self.grid.parts.len() as f64
    }

    fn seconds(&self) -> f64 {
        self.parts.iter().map(|part| part_seconds(self.grid.window, part.from, part.to)).sum()
    }

    fn lost_seconds(&self) -> f64 {
        self.episodes.iter().map(FoundEpisode::lost_seconds).sum()
    }

    fn during(&self) -> During {
        let window = self.grid.window;
        let at = |part: &Part| self.grid.parts.iter().position(|other| other.from == part.from).unwrap_or(0) + 1;
        let first = self.parts.first().map_or(1, |part| at(part));
        let last = self.parts.last().map_or(1, |part| at(part));
        let (from, to) = (self.grid.parts[first - 1].from, self.grid.parts[last - 1].to);
        During {
            seconds: self.seconds(),
            share: self.seconds() / window.seconds(),
            intervals: self.parts.len(),
            first_interval: first,
            last_interval: last,
            of_intervals: self.grid.parts.len(),
            episodes: self.episodes.len(),
            ..during(window, from, to)
        }
    }

    /// Whether it is no more than one short interval among others.
    fn is_brief(&self) -> bool {
        let [part] = self.parts[..] else { return false };
        let is_captured = !self.grid.window.origins().is_empty();
        let is_one_step = is_captured || part.to - part.from == 1;
        is_one_step && self.grid.parts.len() > 2 && self.seconds() < BRIEF_SECONDS
    }
}

/// A span of the window, without its intervals.
fn during(window: &Window, from: usize, to: usize) -> During {
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
            // What a log reports has a time of its own.
            whole.is_some_and(|whole| {
                let is_measured = whole.impact_is == Basis::Measured;
                let is_concentrated = felt.episodes[0].worst.impact >= CONCENTRATED * whole.impact;
                !is_measured || !is_concentrated || felt.share() >= THROUGHOUT
            })
        };
        // An interval that shows an effect of what the mean shows may not show its cause.
        let is_effect = |felt: &Felt<'_>| {
            self.whole
                .findings
                .iter()
                .any(|whole| whole.explained_by.is_some() && felt.episodes[0].continues_with_finding(whole))
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
            let is_felt_somewhere =
                felt.iter().any(|felt| felt.episodes.iter().any(|e| e.continues_with_finding(finding)));
            if !is_felt_somewhere
                && !patterns.contains(&key)
                && self.grids.iter().any(|grid| grid.refuted.contains(&key))
            {
                let because =
                    "the numbers that suggest it are means of different times: in no interval do they hold together";
                refuted.push(RuledOut { id: key, because: because.into() });
            } else {
                findings.push(finding.clone());
            }
        }
        self.explain_by_patterns(&mut findings, &patterns);
        keep_known_links(&mut findings);
        let (not_cleared, doubtful) = self.not_cleared(&findings);
        let worst = worst.or(doubtful).map(|(from, to)| self.whole.facts_of(from, to));
        let is_changed = findings != self.whole.findings;
        let findings = if is_changed { by_rank(findings) } else { findings };
        ByInterval { findings, refuted, not_cleared, worst }
    }

    /// The keys of findings in the mean that are about how something changes over time, which no single interval shows: their conditions are
    /// not known of the same window taken as one step.
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
        let facts = Facts::of(&self.whole.window.as_one_step());
        candidates
            .into_iter()
            .filter(|finding| !is_decided(finding, &facts, self.whole.book))
            .map(Finding::key)
            .collect()
    }

    /// Makes what was found in intervals an effect of a pattern of which the intervals are parts: each burst of writes saturates the disk.
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

    /// A finding with the culprits that the mean names, if its part names none: the tool that shows processes may have run at another time.
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

    /// The causes that are felt in intervals, the most costly first; of several tools, in the intervals of the one that shows it most often.
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
                    within.into_iter().any(|e| part.findings.iter().any(|f| f.is_felt() && e.continues_with_finding(f)))
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

    /// The cause and its effects, diagnosed over its most costly episode, or over the worst interval of that where the whole episode
    /// does not show it; with that span.
    fn diagnosed(&self, felt: &Felt<'_>) -> ((usize, usize), Vec<Finding>) {
        let episode = &felt.episodes[0];
        let mut parts = felt.grid.parts_in(episode.span);
        let first = parts.next().unwrap_or(felt.parts[0]);
        let last = parts.last().unwrap_or(first);
        let mut span = (first.from, last.to);
        let has_it = |found: &[Finding]| found.iter().any(|f| f.is_felt() && episode.continues_with_finding(f));
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
            found.iter().filter(|f| f.is_felt() && episode.continues_with_finding(f)).map(Finding::key).collect();
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

    /// When it was so: of samples, for how long.
    fn in_words(&self, during: &During) -> String {
        if !self.whole.window.origins().is_empty() {
            return in_words(during);
        }
        let [seconds, all] =
            [during.seconds, self.whole.window.seconds()].map(|s| human::quantity(s.round().max(1.0), "s"));
        format!("for {seconds} of {all}")
    }

    /// The resources in doubt in a part, with what stands out where they were in doubt for longest; and the first such part.
    fn not_cleared(&self, findings: &[Finding]) -> (Vec<NotCleared>, Option<(usize, usize)>) {
        let mut all = Vec::new();
        let mut first = None;
        for cleared in self.whole.cleared.iter().filter(|cleared| !cleared.id.contains('.')) {
            let is_in_doubt = |part: &&LongPart| part.in_doubt.iter().any(|entry| entry.id == cleared.id);
            let doubtful = |grid: &Grid<'_>| grid.long.iter().filter(is_in_doubt).count();
            let Some(grid) = self.grids.iter().max_by_key(|grid| doubtful(grid)).filter(|grid| doubtful(grid) > 0)
            else {
                continue;
            };
            let parts: Vec<(usize, &LongPart)> =
                grid.long.iter().enumerate().filter(|(_, part)| is_in_doubt(part)).collect();
            let runs = parts.chunk_by(|(a, _), (b, _)| a + 1 == *b);
            let Some(run) = runs.clone().max_by_key(|run| run.len()) else { continue };
            let (from, to) = (run[0].1.from, run[run.len() - 1].1.to);
            let facts = self.whole.facts_of(from, to);
            let found = findings_of(&facts, self.whole.book);
            let entry = self.whole.in_doubt(&facts, &found).into_iter().find(|e| e.id == cleared.id);
            let entry = entry.or_else(|| run[0].1.in_doubt.iter().find(|entry| entry.id == cleared.id).cloned());
            let Some(entry) = entry else { continue };
            if self.whole.book.resources.is_found(&cleared.id, findings) {
                continue;
            }
            first.get_or_insert((from, to));
            let [begin, .., end] = [&parts[0], &parts[parts.len() - 1]];
            let seconds: f64 = parts.iter().map(|(_, part)| self.whole.seconds(part.from, part.to)).sum();
            let during = During {
                seconds,
                share: seconds / self.whole.window.seconds(),
                intervals: parts.len(),
                first_interval: begin.0 + 1,
                last_interval: end.0 + 1,
                of_intervals: grid.long.len(),
                episodes: runs.count(),
                ..during(self.whole.window, begin.1.from, end.1.to)
            };
            let because = format!("{}, {}", entry.because, self.in_words(&during));
            all.push(NotCleared { because, during: Some(during), ..entry });
        }
        (all, first)
    }
}

/// A summary whose first sentence says when it was so.
fn with_time(summary: &str, time: &str) -> String {
    let starts_anew = |at: &usize| summary[at + 2..].starts_with(char::is_uppercase);
    let end = summary.match_indices(". ").map(|(at, _)| at).find(starts_anew);
    let end = end.unwrap_or(summary.trim_end_matches('.').len());
    format!("{}, {time}{}", &summary[..end], if end < summary.len() { &summary[end..] } else { "." })
}

/// `from 14:00:01 to 14:20:01, the last 2 of 4 intervals`: the times as the capture prints them.
fn in_words(during: &During) -> String {
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

/// Drops links to findings that are not there any longer.
fn keep_known_links(findings: &mut [Finding]) {
    let keys: BTreeSet<String> = findings.iter().map(Finding::key).collect();
    for finding in findings {
        finding.explains.retain(|key| keys.contains(key));
        finding.explained_by = finding.explained_by.take().filter(|key| keys.contains(key));
    }
}
