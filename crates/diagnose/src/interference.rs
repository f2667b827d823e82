//! Interference: which group of processes slows down which other one, resource by resource, in seconds of waiting.
//!
//! A group is a container, else a systemd unit, else a control group. A group's waiting behind itself is its own, and so is its
//! waiting behind a group that uses less of the resource than itself. Each formula is in `how`, and described in
//! docs/diagnosis.md.

use crate::cgroup::{self, in_group};
use crate::facts::Facts;
use crate::scope::Scope;
use crate::signal::{Entity, over};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_documents::diagnosis::{Confidence, GroupName, InterferencePair, Reading};
use whyslow_model::catalogue::{Group, Interference, Qdisc, Vmstat};
use whyslow_model::window::{Change, Window};

/// Group of kernel threads, which are in no control group.
const KERNEL: &str = "kernel";
/// Waiting below this share of the time is not listed.
const LEAST: f64 = 0.005;
/// A culprit uses at least this much of what the victim uses.
const AS_MUCH: f64 = 0.9;
/// Waiting for a CPU, as a share of the time, from which the scheduler is traced; and the number of samples with a backlog from
/// which packets are traced.
const SUSPECT: f64 = 0.03;
const SUSPECT_SAMPLES: usize = 2;

const CPU_TRACED: &str = "time on run queues, by the group that ran on that CPU meanwhile";
const CPU_ESTIMATED: &str = "Δrun_delay x share of the CPU time used, over the whole window";
const DISK: &str = "time of its requests x share of those in flight x growth of their time with the number in flight";
const MEMORY: &str = "time waited for memory x share of the memory held at first or taken since, within the same limit";
const NETWORK: &str = "time of its packets in the queue x share of the bytes sent meanwhile";

/// Returns the sources to turn on because of the window so far.
pub(crate) fn requests(window: &Window, facts: &Facts) -> BTreeSet<String> {
    let mut sources = BTreeSet::new();
    let waits = |pair: &InterferencePair| pair.seconds >= SUSPECT * pair.observed;
    if estimated_cpu(window, facts).iter().any(waits) {
        sources.insert("bpf/interference".to_owned());
    }
    let has_backlog = |queue: &Change<'_, Qdisc>| queue.readings(|q| q.backlog).filter(|bytes| *bytes > 0.0).count();
    if window.changes::<Qdisc>().iter().any(|queue| has_backlog(queue) >= SUSPECT_SAMPLES) {
        sources.insert("bpf/send_queue".to_owned());
    }
    sources
}

/// Returns all pairs, the worst first.
pub(crate) fn pairs(window: &Window, facts: &Facts) -> Vec<InterferencePair> {
    let traced = traced(window, "cpu");
    let cpu = if traced.is_empty() { estimated_cpu(window, facts) } else { traced };
    let mut all = [cpu, disk(window, facts), memory(window, facts), self::traced(window, "network")].concat();
    all.sort_by(|a, b| (b.seconds / b.observed).total_cmp(&(a.seconds / a.observed)));
    all
}

/// How long one group waited for a resource, and behind which groups.
#[derive(Default)]
struct Waits<'a> {
    seconds: f64,
    behind: BTreeMap<&'a str, f64>,
    /// Time in which it had the resource, if known.
    served: Option<f64>,
}

/// Waiting for one resource, by group.
struct Table<'a> {
    resource: &'static str,
    on: Option<String>,
    observed: f64,
    waits: BTreeMap<&'a str, Waits<'a>>,
    /// Use of the resource by each group, if known.
    takes: BTreeMap<&'a str, f64>,
    confidence: Confidence,
    how: &'static str,
}

impl Table<'_> {
    fn pairs(&self) -> Vec<InterferencePair> {
        let takes_as_much = |culprit: &str, victim: &str| match (self.takes.get(culprit), self.takes.get(victim)) {
            (Some(culprit), Some(victim)) => *culprit >= AS_MUCH * victim,
            _ => true,
        };
        let mut pairs = Vec::new();
        for (victim, waits) in &self.waits {
            for (culprit, seconds) in &waits.behind {
                let is_listed = *seconds >= LEAST * self.observed && culprit != victim && !culprit.is_empty();
                if !is_listed || !takes_as_much(culprit, victim) {
                    continue;
                }
                pairs.push(InterferencePair {
                    victim: group_name(victim),
                    culprit: group_name(culprit),
                    resource: self.resource.to_owned(),
                    on: self.on.clone(),
                    seconds: *seconds,
                    observed: self.observed,
                    share: over(Some(*seconds), Some(waits.seconds)).unwrap_or(0.0).min(1.0),
                    loss: over(Some(*seconds), Some(waits.seconds + waits.served.unwrap_or(0.0)))
                        .unwrap_or(0.0)
                        .min(1.0),
                    confidence: self.confidence,
                    how: self.how.to_owned(),
                });
            }
        }
        pairs
    }
}

fn group_name(path: &str) -> GroupName {
    let kind = if path == KERNEL { KERNEL } else { "cgroup" };
    GroupName {
        kind: kind.to_owned(),
        name: path.to_owned(),
        unit: cgroup::unit(path),
        container: cgroup::container(path),
        guest: cgroup::guest(path),
    }
}

/// Returns the pairs that the kernel traced, for CPUs or packets.
fn traced(window: &Window, resource: &'static str) -> Vec<InterferencePair> {
    let changes = window.changes::<Interference>();
    let changes: Vec<_> = changes.iter().filter(|change| &*change.key().resource == resource).collect();
    let observed = changes.iter().map(|change| change.seconds()).fold(0.0, f64::max);
    // A source turned on for the last sample was read only once.
    if observed == 0.0 {
        return Vec::new();
    }
    let (mut waits, mut takes): (BTreeMap<&str, Waits<'_>>, BTreeMap<&str, f64>) = Default::default();
    for change in changes {
        let key = change.key();
        let (victim, culprit) = (cgroup::accountable(&key.victim), cgroup::accountable(&key.culprit));
        let waited = change.grown(|row| row.waited).unwrap_or(0.0) / 1e9;
        let of_victim = waits.entry(victim).or_default();
        of_victim.seconds += waited;
        *of_victim.behind.entry(culprit).or_default() += waited;
        if key.victim == key.culprit {
            let used = change.grown(|row| row.used).unwrap_or(0.0);
            *takes.entry(victim).or_default() += used;
            if resource == "cpu" {
                *of_victim.served.get_or_insert(0.0) += used / 1e9;
            }
        }
    }
    let how = if resource == "cpu" { CPU_TRACED } else { NETWORK };
    Table { resource, on: None, observed, waits, takes, confidence: Confidence::High, how }.pairs()
}

/// Returns the group of a process, or that of kernel threads.
fn group_of<'e>(entity: &'e Entity, kernel: &str) -> Option<&'e str> {
    if entity.number(kernel) == Some(1.0) { Some(KERNEL) } else { entity.deepest_cgroup().map(cgroup::accountable) }
}

/// Estimates the pairs from each process' waiting for a CPU, without knowing which processes ran meanwhile. A group that its
/// quota throttled waited for the quota.
fn estimated_cpu(window: &Window, facts: &Facts) -> Vec<InterferencePair> {
    let observed = window.seconds();
    let (mut waits, mut takes): (BTreeMap<&str, Waits<'_>>, BTreeMap<&str, f64>) = Default::default();
    for process in facts.entities(Scope::Process) {
        let Some(group) = group_of(process, "proc.kernel") else { continue };
        if process.subject.pid.is_some_and(|pid| facts.observers.contains(&pid)) {
            continue;
        }
        let cpu = process.number("proc.cpu_mean").unwrap_or(0.0) * observed;
        *takes.entry(group).or_default() += cpu;
        let own = waits.entry(group).or_default();
        *own.served.get_or_insert(0.0) += cpu;
        if process.number("proc.background") == Some(0.0) {
            own.seconds += process.number("proc.run_delay").unwrap_or(0.0) * observed;
        }
    }
    let groups = window.changes::<Group>();
    let is_stopped = |path: &str| {
        let stopped = |group: &&Change<'_, Group>| group.grown(|g| g.throttled_time).is_some_and(|ns| ns > 0.0);
        groups
            .iter()
            .filter(stopped)
            .any(|group| in_group(Some(path), group.key()) || in_group(Some(group.key()), path))
    };
    waits.retain(|group, _| *group != KERNEL && !is_stopped(group));
    let all: f64 = takes.values().sum();
    for wait in waits.values_mut().filter(|_| all > 0.0) {
        wait.behind = takes.iter().map(|(culprit, cpu)| (*culprit, wait.seconds * cpu / all)).collect();
    }
    let (confidence, how) = (Confidence::Medium, CPU_ESTIMATED);
    Table { resource: "cpu", on: None, observed, waits, takes, confidence, how }.pairs()
}

/// Returns the pairs by requests in flight on each disk at the bottom of the stack, including those to devices on top of it.
fn disk(window: &Window, facts: &Facts) -> Vec<InterferencePair> {
    let disks = facts.entities(Scope::Disk);
    let rests_on = |upper: &Entity, lower: &Entity| facts.topology.rests_on(&upper.subject.name, &lower.subject.name);
    let bottom = disks.iter().filter(|disk| !disks.iter().any(|other| rests_on(disk, other)));
    bottom.flat_map(|disk| on_disk(window, facts, disk)).collect()
}

fn on_disk(window: &Window, facts: &Facts, disk: &Entity) -> Vec<InterferencePair> {
    let number = |signal: &str| disk.number(signal).unwrap_or(0.0);
    // Where the number in flight does not vary, the dependence of the latency on it is unknown: requests to a device that always
    // has several, and whose users wait for nothing else, are assumed to wait for each other.
    let is_full = number("disk.queue_busy") > 3.9 && number("disk.wait") > 0.002 && number("disk.users_blocked") > 0.8;
    let (scaling, confidence) = match disk.number("disk.wait_scaling") {
        Some(scaling) => (scaling, Confidence::High),
        None if is_full => (1.0, Confidence::Medium),
        None => (0.0, Confidence::Medium),
    };
    let name = &*disk.subject.name;
    let observed = window.seconds();
    let (mut waits, mut takes): (BTreeMap<&str, Waits<'_>>, BTreeMap<&str, f64>) = Default::default();
    // Seconds of waiting that would end with the requests of others, by group.
    let mut extra: BTreeMap<&str, f64> = BTreeMap::new();
    for used in facts.entities(Scope::Io) {
        let Some(Reading::Text(device)) = used.reading("io.device") else { continue };
        let is_on_it = *device == *name || facts.topology.rests_on(device, name);
        let Some(in_flight) = used.number("io.in_flight").filter(|_| is_on_it) else { continue };
        let Some(group) = group_of(used, "io.kernel").filter(|group| *group != KERNEL) else { continue };
        let queued = used.number("io.queue_time").unwrap_or(0.0) * used.number("io.requests").unwrap_or(0.0);
        *takes.entry(group).or_default() += in_flight;
        waits.entry(group).or_default().seconds += in_flight * observed;
        *extra.entry(group).or_default() += (queued + (in_flight - queued).max(0.0) * scaling) * observed;
    }
    let all = takes.values().sum::<f64>().max(number("disk.queue"));
    for (group, wait) in waits.iter_mut().filter(|_| all > 0.0) {
        let extra = extra.get(group).copied().unwrap_or(0.0);
        wait.behind = takes.iter().map(|(culprit, in_flight)| (*culprit, extra * in_flight / all)).collect();
    }
    Table { resource: "disk", on: Some(name.to_owned()), observed, waits, takes, confidence, how: DISK }.pairs()
}

/// A group's memory over the window.
struct MemoryUse {
    /// Seconds in which one of its tasks waited for memory.
    waited: f64,
    /// Bytes that it held at first, or took since: allocated, or read into the page cache for the first time. Refaults soon
    /// after eviction do not count.
    had: f64,
}

/// Returns the pairs by each group's part of the memory that they share: that of the nearest ancestor that reached its limit,
/// else that of the machine. A group that reached its own limit waits for that.
fn memory(window: &Window, facts: &Facts) -> Vec<InterferencePair> {
    let changes = window.changes::<Group>();
    let by_path: BTreeMap<&str, &Change<'_, Group>> = changes.iter().map(|change| (&**change.key(), change)).collect();
    let processes = facts.entities(Scope::Process);
    let groups: BTreeSet<&str> = processes.iter().filter_map(|p| p.deepest_cgroup()).map(cgroup::accountable).collect();
    let page = crate::signal::page_size(window);
    let mut within: BTreeMap<&str, BTreeMap<&str, MemoryUse>> = BTreeMap::new();
    for group in groups.into_iter().filter(|group| *group != "/") {
        let Some(change) = by_path.get(group) else { continue };
        let limit = limit_reached(group, &by_path).or_else(|| machine_reclaims(window).then_some("/"));
        if let (Some(limit), Some(used)) =
            (limit.filter(|limit| *limit != group), memory_use(window, facts, change, page))
        {
            within.entry(limit).or_default().insert(group, used);
        }
    }
    within.iter().flat_map(|(limit, uses)| within_limit(window.seconds(), limit, uses)).collect()
}

fn within_limit(observed: f64, limit: &str, uses: &BTreeMap<&str, MemoryUse>) -> Vec<InterferencePair> {
    let takes: BTreeMap<&str, f64> = uses.iter().map(|(group, used)| (*group, used.had)).collect();
    let all: f64 = takes.values().sum();
    let waits = uses.iter().filter(|(_, used)| used.waited > 0.0 && all > 0.0).map(|(victim, used)| {
        let behind = takes.iter().map(|(culprit, had)| (*culprit, used.waited * had / all)).collect();
        (*victim, Waits { seconds: used.waited, behind, served: Some((observed - used.waited).max(0.0)) })
    });
    let (on, waits, confidence) = (Some(limit.to_owned()), waits.collect(), Confidence::Medium);
    Table { resource: "memory", on, observed, waits, takes, confidence, how: MEMORY }.pairs()
}

/// Returns the group itself or its nearest ancestor that reached its memory limit.
fn limit_reached<'p>(group: &'p str, all: &BTreeMap<&str, &Change<'_, Group>>) -> Option<&'p str> {
    let mut path = group;
    while !path.is_empty() {
        let reached = |g: &&Change<'_, Group>| g.grown(|g| g.limit_events).is_some_and(|times| times > 0.0);
        if all.get(path).is_some_and(reached) {
            return Some(path);
        }
        path = &path[..path.rfind('/')?];
    }
    None
}

fn machine_reclaims(window: &Window) -> bool {
    let reclaimed = |change: Change<'_, Vmstat>| {
        let [background, direct] = [change.grown(|v| v.pgsteal_kswapd), change.grown(|v| v.pgsteal_direct)];
        background.unwrap_or(0.0) + direct.unwrap_or(0.0)
    };
    window.change::<Vmstat>().map(reclaimed).is_some_and(|pages| pages > 0.0)
}

fn memory_use(window: &Window, facts: &Facts, change: &Change<'_, Group>, page: f64) -> Option<MemoryUse> {
    let refaulted = change.grown(|g| g.refault_file).unwrap_or(0.0) + change.grown(|g| g.refault_anon).unwrap_or(0.0);
    let charged = change.grown(|g| g.pages_in).map(|pages| pages * page);
    let held = |row: &Group| row.memory.get().unwrap_or(0.0);
    let grown = (held(change.last()) - held(change.first())).max(0.0);
    let took = charged.or_else(|| Some(grown + change.grown(|g| g.reclaimed)? * page))?;
    // Version 1 measures no pressure, and pressure leaves out pages that were evicted before they had been used twice.
    let pressure = change.grown(|g| g.psi_memory_some).map(|ns| ns / 1e9);
    let refault_wait = facts.refault_wait(change.key()).map(|share| share * window.seconds());
    let waited = [pressure, refault_wait].into_iter().flatten().reduce(f64::max)?;
    Some(MemoryUse { waited, had: held(change.first()) + (took - refaulted * page).max(0.0) })
}

impl Facts {
    /// Returns the share of the time in which a process of the group waited for pages that had been evicted.
    fn refault_wait(&self, group: &str) -> Option<f64> {
        let groups = self.entities(Scope::Group).iter().find(|entity| entity.subject.name == group)?;
        groups.number("group.refault_wait")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SECOND, window};
    use whyslow_model::catalogue::ProcessRow;
    use whyslow_model::key::{InterferenceKey, TaskKey};

    /// Rows of pairs whose waiting and use grow by these nanoseconds per second.
    fn traced_pairs(rows: &[(&str, &str, u64, u64)]) -> Vec<(String, String, f64, f64, f64)> {
        let window = window(0..5, |t, s| {
            for (victim, culprit, waited, used) in rows {
                let pair =
                    InterferenceKey { resource: "cpu".into(), victim: (*victim).into(), culprit: (*culprit).into() };
                let row = Interference { waited: (t * waited).into(), ..Interference::new(pair) };
                s.cgroup.interference.push(Interference { used: (t * used).into(), ..row });
            }
        });
        let round = |number: f64| (number * 1000.0).round() / 1000.0;
        let pairs = traced(&window, "cpu").into_iter();
        pairs.map(|p| (p.victim.name, p.culprit.name, round(p.seconds), round(p.share), round(p.loss))).collect()
    }

    const MS: u64 = SECOND / 1000;

    #[test]
    fn the_wait_of_a_group_is_shared_among_those_that_ran_meanwhile() {
        let pairs = traced_pairs(&[
            // The victim runs 0.4 s per second and waits 0.5 s: 0.1 s behind itself, 0.3 s behind the hog.
            ("/web", "/web", 100 * MS, 400 * MS),
            ("/web", "/hog", 300 * MS, 0),
            ("/web", "kernel", 2 * MS, 0),
            ("/web", "", 98 * MS, 0),
            // The hog waits longer, but mostly for itself, and it uses more than the victim.
            ("/hog", "/hog", 3000 * MS, 1500 * MS),
            ("/hog", "/web", 900 * MS, 0),
        ]);
        // In four seconds; 0.3 of 0.5, and of 0.9 with the time it ran.
        assert_eq!(pairs, [("/web".into(), "/hog".into(), 1.2, 0.6, 0.333)]);
    }

    #[test]
    fn groups_that_take_as_much_as_each_other_slow_each_other() {
        let rows = [
            ("/a", "/a", 0, 500 * MS),
            ("/a", "/b", 500 * MS, 0),
            ("/b", "/b", 0, 520 * MS),
            ("/b", "/a", 480 * MS, 0),
        ];
        let pairs: Vec<_> = traced_pairs(&rows).into_iter().map(|(victim, ..)| victim).collect();
        assert_eq!(pairs, ["/a", "/b"]);
    }

    #[test]
    fn what_was_read_once_shows_nothing() {
        let window = window(0..3, |t, s| {
            if t == 2 {
                let pair = InterferenceKey { resource: "cpu".into(), victim: "/a".into(), culprit: "/b".into() };
                s.cgroup.interference.push(Interference { waited: SECOND.into(), ..Interference::new(pair) });
            }
        });
        assert_eq!(traced(&window, "cpu"), []);
    }

    #[test]
    fn a_unit_does_not_slow_itself() {
        let unit = "/system.slice/web.service";
        let [a, b] = ["a", "b"].map(|part| format!("{unit}/{part}"));
        let rows = [(&*a, &*b, 500 * MS, 0), (&*a, &*a, 0, 100 * MS), (&*b, &*b, 0, 900 * MS)];
        assert_eq!(traced_pairs(&rows), []);
    }

    #[test]
    fn memory_is_waited_for_because_of_those_that_have_it() {
        let used = |waited, had| MemoryUse { waited, had };
        // The victim waits eight of ten seconds, and has 50 of 400 MiB; another group has 300.
        let uses = [("/pod/db", used(8.0, 50.0)), ("/pod/hog", used(0.0, 300.0)), ("/pod/other", used(0.0, 50.0))];
        let pairs = within_limit(10.0, "/pod", &BTreeMap::from(uses)).into_iter();
        let pairs: Vec<_> = pairs.map(|p| (p.victim.name, p.culprit.name, p.seconds, p.loss)).collect();
        let of = |culprit: &str, seconds, loss| ("/pod/db".to_owned(), culprit.to_owned(), seconds, loss);
        assert_eq!(pairs, [of("/pod/hog", 6.0, 0.6), of("/pod/other", 1.0, 0.1)]);
    }

    #[test]
    fn memory_is_short_within_the_nearest_limit_that_was_reached() {
        const MIB: f64 = 1_048_576.0;
        let window = window(0..11, |t, s| {
            let group = |path: &str, mib: f64, hits: u64, waits_ms: u64, pages: u64| Group {
                memory: (mib * MIB).into(),
                limit_events: (t * hits).into(),
                psi_memory_some: (t * waits_ms * MS).into(),
                pages_in: (t * pages).into(),
                refault_file: (t * if waits_ms > 0 { pages } else { 0 }).into(),
                ..Group::new(path.into())
            };
            s.cgroup.group.extend([
                group("/pod", 400.0, 50, 0, 0),
                group("/pod/db", 100.0, 0, 500, 256),
                group("/pod/hog", 300.0, 0, 0, 0),
                // It waits for its own limit.
                group("/pod/small", 10.0, 9, 900, 256),
                group("/else", 1000.0, 0, 0, 0),
            ]);
            for (pid, path) in (7..).zip(["/pod/db", "/pod/hog", "/pod/small", "/else"]) {
                let key = TaskKey { pid, tid: pid, start: 1 };
                let row = ProcessRow { cgroup: path.into(), ..ProcessRow::new(key) };
                s.task.process.push(row.into());
            }
        });
        let pairs = memory(&window, &Facts::from_window(&window));
        let pairs: Vec<_> =
            pairs.iter().map(|p| (&*p.victim.name, &*p.culprit.name, p.on.as_deref(), p.seconds)).collect();
        // Five of ten seconds, and 300 of 400 MiB.
        assert_eq!(pairs, [("/pod/db", "/pod/hog", Some("/pod"), 3.75)]);
    }
}
