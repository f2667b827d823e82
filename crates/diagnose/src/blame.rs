//! Culprits of a finding, each with its share of the total, as far as the total is known.
//!
//! The part that cannot be attributed is not spread over the visible processes: an unprivileged observer sees only its own I/O,
//! and would blame itself for what root does.

use crate::cgroup;
use crate::expr::Expr;
use crate::facts::Facts;
use crate::rule::{CulpritSpec, Rule, find};
use crate::rule_context::RuleContext;
use crate::scope::Scope;
use crate::signal::Entity;
use crate::sources::NotRead;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_documents::diagnosis::{CgroupShare, Culprit, Subject, Unattributed};

/// Maximum number of culprits named.
const MOST_CULPRITS: usize = 5;
/// Minimum share of a culprit.
const SMALLEST_SHARE: f64 = 0.03;
/// No culprit is named unless this share of the total is attributed: an invisible process may have done more.
const ENOUGH: f64 = 0.5;
/// Unattributed share from which a finding with culprits reports it.
const NOTABLE: f64 = 0.1;
/// Other possible culprits.
const UNSEEN: &str = "kernel threads, or processes that ended between two samples";
/// Reason for naming no culprit where no candidate was listed.
const NOT_LISTED: &str = "its users were not captured";
/// Sources of signals of other users' processes that only root can read.
const RESTRICTED: [&str; 5] = ["/proc/PID/io", "/proc/PID/fd", "wchan", "syscall", "BPF"];

/// Culprits of a finding, largest first, and the part that could not be attributed.
#[derive(Default)]
pub(crate) struct Blame {
    pub(crate) culprits: Vec<Culprit>,
    pub(crate) unattributed: Option<Unattributed>,
    /// Mean number of waiting threads or requests of other processes than the first culprit.
    pub(crate) others_wait: Option<f64>,
    /// Share of the first culprit's part that already has a low priority.
    pub(crate) low_priority: Option<f64>,
    /// Share of the first culprit's part that is buffered writes.
    pub(crate) buffered: Option<f64>,
    /// Reach of a nice value for the first culprit.
    pub(crate) nice: NiceReach,
    /// The first culprit's processes in the same control group as its largest: a command that changes processes changes no
    /// others.
    pub(crate) together: BTreeSet<u32>,
}

/// Reach of a nice value (sched(7)): it weighs a task against those of the same control group with the controller cpu; outside
/// of any, with autogroups, against those of the same session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NiceReach {
    /// Share of other tasks' waiting that it can shorten.
    pub(crate) share: f64,
    /// Whether the reach ends at the session, whose members are not visible.
    pub(crate) by_session: bool,
}

impl Default for NiceReach {
    fn default() -> Self {
        Self { share: 1.0, by_session: false }
    }
}

/// Returns the culprits of a rule's finding, trying its measures in turn.
pub(crate) fn blame<'a>(rule: &Rule, context: &RuleContext<'a>, facts: &'a Facts) -> Blame {
    let mut all = Blame::default();
    for spec in &rule.culprits {
        if spec.otherwise && !all.culprits.is_empty() {
            continue;
        }
        let Blame { culprits, unattributed, others_wait, low_priority, buffered, nice, together } =
            Candidates::from_spec(spec, context, facts).blame(rule, context, facts);
        if all.culprits.is_empty() {
            (all.others_wait, all.low_priority, all.buffered) = (others_wait, low_priority, buffered);
            (all.nice, all.together) = (nice, together);
        }
        // Prefer the reason that goes with the named culprits; without any, the first reason that has a remedy.
        let is_better = |old: &Unattributed, new: &Unattributed| old.remedy.is_empty() && !new.remedy.is_empty();
        all.unattributed = match (all.unattributed.take(), unattributed) {
            (_, gap) if all.culprits.is_empty() && !culprits.is_empty() => gap,
            (Some(old), Some(new)) if all.culprits.is_empty() && is_better(&old, &new) => Some(new),
            (None, new) if all.culprits.is_empty() => new,
            (old, _) => old,
        };
        for culprit in culprits {
            // A culprit by one measure is not named again by a later one.
            let is_known = |c: &Culprit| {
                let same_pid = c.pid == culprit.pid || c.pids.len() > 1 || culprit.pids.len() > 1;
                let same_home = (&c.unit, &c.container) == (&culprit.unit, &culprit.container);
                (&c.kind, &c.name) == (&culprit.kind, &culprit.name) && same_home && same_pid
            };
            if !all.culprits.iter().any(is_known) {
                all.culprits.push(culprit);
            }
        }
    }
    all.culprits.truncate(MOST_CULPRITS);
    all
}

/// Candidates by program, and by systemd unit or container, which have their own owners and settings.
struct Candidates<'a> {
    spec: &'a CulpritSpec,
    groups: BTreeMap<(&'a str, &'a str, Option<&'a str>), Group<'a>>,
    /// Total of all candidates, including invisible ones.
    total: Option<f64>,
}

/// One culprit: the processes with one name, or one entity of another kind.
struct Group<'a> {
    /// Part of each process.
    parts: BTreeMap<Option<u32>, f64>,
    /// Part of the processes in each control group.
    cgroups: BTreeMap<Option<&'a str>, f64>,
    /// Control group of each process.
    homes: BTreeMap<u32, Option<&'a str>>,
    waits: f64,
    /// Part and waits by control group with the controller cpu; `None` for those outside of any.
    by_cpu_group: BTreeMap<Option<&'a str>, (f64, f64)>,
    /// Part of those with a low priority.
    low_priority: f64,
    buffered: f64,
    entity: &'a Entity,
}

impl<'a> Candidates<'a> {
    fn from_spec(spec: &'a CulpritSpec, context: &RuleContext<'a>, facts: &'a Facts) -> Self {
        let total = spec.total.as_ref().and_then(|total| total.number(context));
        let mut candidates = Self { spec, groups: BTreeMap::new(), total };
        for candidate in facts.entities(spec.scope) {
            let candidate_context = context.weigh(candidate);
            let is_among = spec.among.as_ref().is_none_or(|among| among.holds(&candidate_context));
            if let Some(part) = spec.by.number(&candidate_context).filter(|part| is_among && *part > 0.0) {
                let number =
                    |expr: &Option<Expr>| expr.as_ref().and_then(|e| e.number(&candidate_context)).unwrap_or(0.0);
                let group = candidates.group_of(candidate);
                *group.parts.entry(candidate.subject.pid).or_insert(0.0) += part;
                *group.cgroups.entry(candidate.deepest_cgroup()).or_insert(0.0) += part;
                if let Some(pid) = candidate.subject.pid {
                    group.homes.insert(pid, candidate.deepest_cgroup());
                }
                let waits = number(&spec.waits);
                group.waits += waits;
                let in_group = group.by_cpu_group.entry(facts.cpu_group(candidate.cgroup.as_deref())).or_default();
                *in_group = (in_group.0 + part, in_group.1 + waits);
                group.low_priority += part * number(&spec.low_priority);
                group.buffered += number(&spec.buffered);
            }
        }
        candidates
    }

    fn group_of(&mut self, candidate: &'a Entity) -> &mut Group<'a> {
        let Subject { kind, name, .. } = &candidate.subject;
        let group = self.groups.entry((kind, name, candidate.deepest_cgroup().and_then(home)));
        group.or_insert_with(|| Group {
            parts: BTreeMap::new(),
            cgroups: BTreeMap::new(),
            homes: BTreeMap::new(),
            waits: 0.0,
            by_cpu_group: BTreeMap::new(),
            low_priority: 0.0,
            buffered: 0.0,
            entity: candidate,
        })
    }

    fn blame(self, rule: &Rule, context: &RuleContext<'_>, facts: &Facts) -> Blame {
        let seen: f64 = self.groups.values().flat_map(|group| group.parts.values()).sum();
        let all = self.total.map_or(seen, |total| total.max(seen));
        let missing = self.total.filter(|_| all > 0.0).map(|_| 1.0 - seen / all);
        let spec = self.spec;
        let is_refused = spec.unattributed.is_some() && facts.sources.refused(&rule.asks).is_some();
        let is_subject = |group: &Group<'_>| group.entity.subject.pid == context.subject_pid();
        let is_of_others = context.subject_pid().is_none() || !self.groups.values().all(is_subject);
        let refused = refused(spec, facts).filter(|_| is_of_others);
        let hides = refused.is_some() || is_refused;
        let is_enough = missing.map_or(!hides, |missing| missing <= 1.0 - ENOUGH);
        let mut named = Blame::default();
        if is_enough {
            let own = |group: &Group<'_>| group.entity.subject.pid.is_some_and(|pid| facts.observers.contains(&pid));
            let mut groups: Vec<Group<'_>> =
                self.groups.into_values().filter(|group| !own(group) || is_subject(group)).collect();
            groups.sort_by(|a, b| b.part().total_cmp(&a.part()));
            // The unattributed part is assumed to belong to other processes, which wait as much for their part as the visible
            // ones.
            let not_seen =
                missing.filter(|missing| *missing >= NOTABLE).map_or(0.0, |missing| missing / (1.0 - missing));
            let waits = |groups: &[Group<'_>]| groups.iter().map(|group| group.waits).sum::<f64>();
            let others_wait = || waits(groups.get(1..).unwrap_or_default()) + waits(&groups) * not_seen;
            named.others_wait = spec.waits.as_ref().map(|_| others_wait());
            let share = |of: &Option<Expr>, part: fn(&Group<'_>) -> f64| {
                groups.first().filter(|_| of.is_some()).map(|first| part(first) / first.part())
            };
            named.low_priority = share(&spec.low_priority, |first| first.low_priority);
            named.buffered = share(&spec.buffered, |first| first.buffered);
            if let Some((first, others)) = groups.split_first() {
                named.nice = nice_reach(first, others, facts);
                named.together = first.together();
            }
            // It is unknown whether a capture lists every process, unless the total is the subject's own.
            let is_partial = facts.running.is_none()
                && self.total.is_none()
                && [Scope::Process, Scope::Thread, Scope::Io, Scope::Connection].contains(&spec.scope)
                && !groups.iter().all(is_subject);
            let of = if is_partial { format!("{}, as far as listed", spec.of) } else { spec.of.clone() };
            let culprits = groups.into_iter().map(|group| group.culprit(all, &of));
            named.culprits = culprits.filter(|c| c.share >= SMALLEST_SHARE).collect();
        }
        if !named.culprits.is_empty() && missing.is_none_or(|missing| missing < NOTABLE) {
            return named;
        }
        let reason = why(spec, rule, context, facts, refused);
        // If the total is unknown and nothing was refused, nothing is known to be missing.
        let is_listed = !facts.entities(spec.scope).is_empty();
        let why = if is_listed { UNSEEN } else { NOT_LISTED };
        let reason = reason.or_else(|| missing.map(|_| NotRead { why: why.into(), remedy: String::new() }));
        let unattributed = |NotRead { why, remedy }| Unattributed { share: missing, of: spec.of.clone(), why, remedy };
        Blame { unattributed: reason.map(unattributed), ..named }
    }
}

/// Returns how far a nice value of a program's processes reaches among other waiting processes.
fn nice_reach(first: &Group<'_>, others: &[Group<'_>], facts: &Facts) -> NiceReach {
    let parts = first.by_cpu_group.iter().map(|(group, (part, _))| (*group, *part)).collect();
    let Some((own, _)) = largest_first(parts).next() else { return NiceReach::default() };
    if own.is_none() && facts.setting("kernel.sched_autogroup_enabled") == Some("1") {
        return NiceReach { share: 0.0, by_session: true };
    }
    let (mut all, mut reached) = (0.0, 0.0);
    for (group, (_, waits)) in others.iter().flat_map(|other| &other.by_cpu_group) {
        all += waits;
        reached += if *group == own { *waits } else { 0.0 };
    }
    NiceReach { share: if all > 0.0 { reached / all } else { 1.0 }, by_session: false }
}

impl Group<'_> {
    /// Returns its processes in the control group with the largest part.
    fn together(&self) -> BTreeSet<u32> {
        let Some((home, _)) = largest_first(self.cgroups.clone()).next() else { return BTreeSet::new() };
        self.homes.iter().filter(|(_, own)| **own == home).map(|(pid, _)| *pid).collect()
    }

    fn part(&self) -> f64 {
        self.parts.values().sum()
    }

    fn culprit(self, all: f64, of: &str) -> Culprit {
        let Subject { kind, name, .. } = &self.entity.subject;
        let share = self.part() / all;
        let pids: Vec<u32> = largest_first(self.parts).filter_map(|(pid, _)| pid).collect();
        let in_cgroups = largest_first(self.cgroups).filter(|_| kind != "cgroup");
        let in_cgroups: Vec<(&str, f64)> = in_cgroups.filter_map(|(cgroup, part)| Some((cgroup?, part))).collect();
        let cgroup = in_cgroups.first().map(|(cgroup, _)| *cgroup);
        let share_in = |(cgroup, part): &(&str, f64)| CgroupShare { cgroup: (*cgroup).to_owned(), share: part / all };
        let cgroups = in_cgroups.iter().map(share_in).collect();
        Culprit {
            kind: kind.clone(),
            name: name.clone(),
            pid: pids.first().copied(),
            pids: if pids.len() > 1 { pids } else { Vec::new() },
            command_line: None,
            cgroup: cgroup.map(str::to_owned),
            cgroups: if in_cgroups.len() > 1 { cgroups } else { Vec::new() },
            unit: cgroup.and_then(cgroup::unit),
            container: cgroup.and_then(cgroup::container),
            share,
            of: of.to_owned(),
        }
    }
}

fn largest_first<K>(parts: BTreeMap<K, f64>) -> impl Iterator<Item = (K, f64)> {
    let mut parts: Vec<(K, f64)> = parts.into_iter().collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts.into_iter()
}

/// Returns the control group of the systemd unit or the container that a control group belongs to.
fn home(path: &str) -> Option<&str> {
    (cgroup::unit(path).is_some() || cgroup::container(path).is_some()).then(|| cgroup::accountable(path))
}

/// Returns true if the measure reads any of these kernel sources.
fn reads(spec: &CulpritSpec, words: &[&str]) -> bool {
    let names = spec.by.names().into_iter().chain(spec.among.iter().flat_map(|among| among.names()));
    let mut sources = names.filter_map(|name| Some(find(&name, &[spec.scope])?.source));
    // Where /proc/PID/stat, which every user may read, has the same count, BPF is not needed.
    let needs =
        |source: &str, word: &str| source.contains(word) && !(word == "BPF" && source.contains("/proc/PID/stat"));
    sources.any(|source| words.iter().any(|word| needs(source, word)))
}

/// Returns the refused read of other users' processes, if the measure needs it and a process is active whose data is missing.
/// With hidepid not even their CPU time is visible.
fn refused<'f>(spec: &CulpritSpec, facts: &'f Facts) -> Option<&'f NotRead> {
    let is_needed = |reason: &&NotRead| {
        reason.is_hidden() || facts.host_number("stall.io_hidden") == Some(1.0) && reads(spec, &RESTRICTED)
    };
    facts.sources.processes_refused().filter(is_needed)
}

/// Returns why a share is unattributed. A refused read comes first, as it has a remedy.
fn why(
    spec: &CulpritSpec,
    rule: &Rule,
    context: &RuleContext<'_>,
    facts: &Facts,
    refused: Option<&NotRead>,
) -> Option<NotRead> {
    let sources = &facts.sources;
    let bpf = || sources.bpf_refused().filter(|_| reads(spec, &["BPF"]));
    let own = sources.refused(&rule.asks).filter(|_| spec.unattributed.is_some());
    if let Some(NotRead { why, remedy }) = own.or(refused) {
        return Some(NotRead { why: format!("cannot read {why}"), remedy: remedy.clone() });
    }
    if let Some(reason) = sources.refused(&rule.asks).or_else(bpf) {
        return Some(reason.clone());
    }
    let not_asked = rule.asks.iter().find(|source| spec.unattributed.is_some() && !sources.was_read(source));
    let because = match (not_asked, &spec.unattributed) {
        (Some(source), _) => format!("{source} was not read"),
        (None, Some(reason)) => reason.prose(context).unwrap_or_default(),
        (None, None) => return None,
    };
    Some(NotRead { why: because, remedy: String::new() })
}
