//! Turns a Window into the diagnosis document.

use crate::coverage;
use crate::facts::Facts;
use crate::flow;
use crate::interference;
use crate::intervals::{self, Whole};
use crate::judge::{Judged, judge};
use crate::ledger;
use crate::on_demand;
use crate::relate::relate;
use crate::response_curve;
use crate::rule_context::RuleContext;
use crate::rulebook::RuleBook;
use crate::signals::task::CLOCK_TICK_NS;
use crate::since_boot;
use crate::stands_out;
use jiff::Timestamp;
use std::collections::BTreeSet;
use whyslow_documents::blind_spots;
use whyslow_documents::diagnosis::{
    BlindSpot, Diagnosis, Finding, Host, NotCleared, ObserverCost, Origin, RuledOut, SCHEMA, TimeSpan, Verdict,
};
use whyslow_model::catalogue::{Family, MachineInfo, Meminfo, Observer, Process};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

/// Share of the CPU time that processes must explain; otherwise the gap is a blind spot.
const EXPLAINED: f64 = 0.9;
/// I/O wait (a share of the CPU time) above which storage counts as observed, even if nothing else shows it.
const IDLE_FOR_STORAGE: f64 = 0.2;
/// Share of the time with requests in flight from which a device counts as active.
const AT_WORK: f64 = 0.1;
/// TCP segments sent per second from which a network counts as active.
const SEGMENTS_AT_WORK: f64 = 100.0;
/// How long after its start the observer is still loading, nanoseconds.
const STARTING_NS: u64 = 10 * 1_000_000_000;
/// Maximum number of look-alikes named.
const MOST_RULED_OUT: usize = 12;

/// Judges a window by a book of rules.
pub fn diagnose(window: &Window, source: Origin, book: &RuleBook) -> Diagnosis {
    let mut facts = Facts::from_window(window);
    if let Some(running) = &mut facts.running {
        running.is_past = source == Origin::Recording;
    }
    let (mut judged, alike) = judge(book.all(), &facts);
    let of_now = keys_of(&judged);
    let since_boot = since_boot::facts(window);
    if let Some(since_boot) = &since_boot {
        // A cause that was found now is not reported a second time.
        let before = since_boot::judge(book.all(), since_boot, &facts).into_iter();
        judged.extend(before.filter(|judged| !of_now.contains(&judged.finding.key())));
    }
    let mut findings = relate(judged, &facts.topology);
    let is_captured = source == Origin::Import;
    let context = RuleContext::new(&facts.host, &facts.host);
    let in_mean = book.resources.not_cleared(&context, &findings, is_captured);
    let whole =
        Whole { window, facts: &facts, findings: &findings, of_now: &of_now, not_cleared: Some(&in_mean), book };
    let mut by_interval = intervals::judge(&whole);
    if let Some(by_interval) = &mut by_interval {
        findings = std::mem::take(&mut by_interval.findings);
    }
    let mut ruled_out = ruled_out(book, &facts, &findings, alike);
    let mut not_cleared = book.resources.not_cleared(&context, &findings, is_captured);
    if let Some(by_interval) = &mut by_interval {
        let in_doubt = std::mem::take(&mut by_interval.not_cleared);
        ruled_out.retain(|entry| !in_doubt.iter().any(|other| other.id == entry.id));
        not_cleared.retain(|entry| !in_doubt.iter().any(|other| other.id == entry.id));
        ruled_out.append(&mut by_interval.refuted);
        not_cleared.extend(in_doubt);
    }
    let mut blind_spots = blind_spots(window, &facts);
    if source == Origin::Import {
        blind_spots.extend(coverage::not_captured(&facts, since_boot.as_ref()));
    }
    let mut figures = if source == Origin::Import { coverage::of_facts(&facts) } else { Vec::new() };
    if let Some(since_boot) = &since_boot {
        blind_spots.push(since_boot::blind_spot());
        since_boot::add_figures(&mut figures, coverage::of_facts(since_boot));
    }
    let verdict = verdict(window, source, &facts, &findings, &ruled_out, &not_cleared);
    let worst = by_interval.as_ref().and_then(|by_interval| by_interval.worst.as_ref());
    let next_capture = match source {
        Origin::Import => book.next_captures.choose(worst.unwrap_or(&facts), since_boot.as_ref(), verdict, &findings),
        Origin::Live | Origin::Recording => None,
    };
    let stands_out = stands_out::deviations(&facts, worst, since_boot.as_ref());
    let main_figures = match source {
        Origin::Import => stands_out::main_figures(&facts, since_boot.as_ref()),
        Origin::Live | Origin::Recording => Vec::new(),
    };
    let response_curves = response_curve::of_subjects(window, &findings);
    Diagnosis {
        schema: SCHEMA.to_owned(),
        host: host(window),
        window: span(window, source),
        verdict,
        findings,
        ruled_out,
        not_cleared,
        blind_spots,
        next_capture,
        figures,
        memory: ledger::memory(window),
        ledgers: ledger::others(window),
        // A capture rarely has all processes, and all devices.
        flows: if is_captured { Vec::new() } else { flow::flows(window, &facts.topology) },
        stands_out,
        main_figures,
        interference: if is_captured { Vec::new() } else { interference::pairs(window, &facts) },
        closer_looks: on_demand::closer_looks(window),
        virtual_disks: Vec::new(),
        comparisons: Vec::new(),
        response_curves,
        time_breakdown: None,
        // The tick samples and the scheduler measures: on a machine that does little, the two can differ either way.
        cpu_explained: facts.host_number("cpu.attributed").map(|share| share.min(1.0)),
        cost: cost(window, source),
    }
}

/// Returns the keys of findings that are not related yet.
fn keys_of(judged: &[Judged]) -> BTreeSet<String> {
    judged.iter().map(|judged| judged.finding.key()).collect()
}

/// Returns the findings of a window, in all of it or in a part: causes before effects.
pub fn findings(window: &Window, book: &RuleBook) -> Vec<Finding> {
    let facts = Facts::from_window(window);
    let (judged, _) = judge(book.all(), &facts);
    let of_now = keys_of(&judged);
    let findings = relate(judged, &facts.topology);
    let whole = Whole { window, facts: &facts, findings: &findings, of_now: &of_now, not_cleared: None, book };
    intervals::judge(&whole).map_or(findings, |by_interval| by_interval.findings)
}

/// Like [`findings`], from facts already computed and without judging intervals.
pub(crate) fn findings_of(facts: &Facts, book: &RuleBook) -> Vec<Finding> {
    let (judged, _) = judge(book.all(), facts);
    relate(judged, &facts.topology)
}

/// Returns what the rules with this id find in a window. Does not relate findings to their causes.
pub fn findings_with_id(id: &str, window: &Window, book: &RuleBook) -> Vec<Finding> {
    let rules = book.with_id(id);
    let facts = Facts::of_scopes(window, |scope| rules.iter().any(|rule| rule.reads(scope)));
    let (judged, _) = judge(rules, &facts);
    judged.into_iter().map(|judged| judged.finding).collect()
}

/// Returns the verdict. Captures rarely cover every resource: what they cover is judged, and the rest is a blind spot. A machine
/// is not healthy while a resource exceeds what would clear it, even if only a suspicion was found.
fn verdict(
    window: &Window,
    source: Origin,
    facts: &Facts,
    findings: &[Finding],
    ruled_out: &[RuledOut],
    not_cleared: &[NotCleared],
) -> Verdict {
    if findings.iter().any(Finding::is_felt) {
        return Verdict::Bottleneck;
    }
    if source == Origin::Import {
        return of_what_was_seen(facts, ruled_out);
    }
    let known = |name: &str| facts.host_number(name).is_some();
    let seen = known("cpu.busy") && known("stall.io") && (known("stall.memory") || known("mem.available"));
    let is_healthy = window.snapshots().len() >= 2 && seen && not_cleared.is_empty();
    if is_healthy { Verdict::Healthy } else { Verdict::Undetermined }
}

/// Returns healthy if everything captured is cleared, and enough was captured: ruling out one resource does not make a machine
/// healthy. Either of these is enough:
///
/// - CPUs and disks. Short memory costs time by paging and reclaim, which would show in one of the two; whatever else was
///   captured must be cleared too.
/// - An active disk or network. A capture of a busy one alone asks whether it keeps up, and it does. An idle one says nothing
///   about other causes.
fn of_what_was_seen(facts: &Facts, ruled_out: &[RuledOut]) -> Verdict {
    let known = |name: &str| facts.host_number(name).is_some();
    let at_least = |name: &str, least: f64| facts.host_number(name).is_some_and(|value| value >= least);
    let waits = facts.host_number("cpu.iowait").is_some_and(|share| share > IDLE_FOR_STORAGE);
    let seen = [
        ("cpu", known("cpu.busy")),
        ("memory", known("mem.total") || known("mem.swap_in_rate")),
        ("disk", known("disk.most_waited") || known("stall.io") || waits),
        ("network", at_least("net.segments", SEGMENTS_AT_WORK)),
        ("kernel log", known("log.lines")),
    ];
    let cleared = |resource: &str| ruled_out.iter().any(|r| r.id == resource);
    let seen: Vec<&str> = seen.iter().filter(|(_, seen)| *seen).map(|(resource, _)| *resource).collect();
    let is_enough = ["cpu", "disk"].iter().all(|resource| seen.contains(resource))
        || at_least("disk.most_waited", AT_WORK)
        || seen.contains(&"network");
    if is_enough && seen.iter().all(|resource| cleared(resource)) { Verdict::Healthy } else { Verdict::Undetermined }
}

fn ruled_out(book: &RuleBook, facts: &Facts, findings: &[Finding], alike: Vec<RuledOut>) -> Vec<RuledOut> {
    let context = RuleContext::new(&facts.host, &facts.host);
    let mut all = book.resources.ruled_out(&context, findings);
    // A finding on one entity is not ruled out by another entity that only looks like it.
    let is_found = |entry: &RuledOut| {
        let id = entry.id.split('@').next().unwrap_or_default();
        findings.iter().any(|finding| finding.id == id)
    };
    for entry in alike.into_iter().filter(|entry| !is_found(entry)) {
        if !all.contains(&entry) {
            all.push(entry);
        }
    }
    all.truncate(MOST_RULED_OUT);
    all
}

/// Returns what the sources could not show.
fn blind_spots(window: &Window, facts: &Facts) -> Vec<BlindSpot> {
    let mut spots = blind_spots::of_sources(window, &WORTH_HAVING);
    spots.extend(unexplained(facts));
    spots.sort();
    spots
}

/// Returns a blind spot for CPU time that is not attributed to any process.
fn unexplained(facts: &Facts) -> Option<BlindSpot> {
    let busy = facts.host_number("cpu.busy").unwrap_or(0.0);
    let explained = facts.host_number("cpu.attributed").filter(|share| *share < EXPLAINED && busy > 0.2)?;
    Some(BlindSpot {
        what: format!("which process used {:.0} % of the CPU time", (1.0 - explained) * 100.0),
        why: "not attributed to any process: interrupts, or processes that started and ended between samples".into(),
        remedy: "a shorter --interval".into(),
    })
}

/// Features whose absence from a kernel is a blind spot, and what would provide them; any other missing feature is none.
const WORTH_HAVING: [(&str, &str); 5] = [
    ("proc/pressure", "boot with psi=1"),
    ("bpf/", "a newer kernel, or one built with CONFIG_DEBUG_INFO_BTF"),
    ("feature/cgroup.", "boot with cgroup_enable= and its name, or use a kernel that has it"),
    ("feature/schedstat", "a kernel with CONFIG_SCHED_INFO"),
    ("feature/", "a newer kernel"),
];

fn host(window: &Window) -> Host {
    let machine = window.the::<MachineInfo>();
    let words = |s: Option<&whyslow_model::value::State>| s.and_then(|s| s.get()).map(str::to_owned);
    Host {
        name: words(machine.map(|m| &m.name)),
        kernel: words(machine.map(|m| &m.release)),
        cpus: machine.and_then(|m| m.processors.get()).map(|n| n as u32),
        memory_bytes: window.the::<Meminfo>().and_then(|m| m.mem_total.get()).map(|b| b as u64),
        virtualization: words(machine.map(|m| &m.virtualization)),
    }
}

fn span(window: &Window, source: Origin) -> TimeSpan {
    let time = |wall_ns: i64| {
        let known = Some(wall_ns).filter(|ns| *ns != 0)?;
        Timestamp::from_nanosecond(known.into()).ok().map(|t| format!("{t:.3}"))
    };
    TimeSpan {
        start: window.snapshots().first().and_then(|s| time(s.wall_ns)),
        end: window.last().and_then(|s| time(s.wall_ns)),
        seconds: window.seconds(),
        is_assumed: window.has_assumed_times(),
        samples: window.snapshots().len(),
        source,
    }
}

/// Returns the cost of observing over the window; just after the start, over its whole run, since what it loads first is part of
/// the cost.
fn cost(window: &Window, source: Origin) -> ObserverCost {
    let Some(own) = window.change::<Observer>() else { return ObserverCost::default() };
    let since_start = if source == Origin::Live { seconds_since_start(window, own.last()) } else { None };
    let (cpu_ns, seconds) = match since_start {
        Some(seconds) => (own.last().cpu_time.get().map(|ns| ns as f64), seconds),
        None => (own.grown(|o| o.cpu_time), own.counted_seconds(|o| o.cpu_time)),
    };
    let cpu_seconds = cpu_ns.unwrap_or(0.0) / 1e9;
    let cpus = window.the::<MachineInfo>().and_then(|m| m.processors.get()).unwrap_or(1.0);
    let all = seconds * cpus;
    ObserverCost {
        cpu_seconds,
        cpu_share: if all > 0.0 { cpu_seconds / all } else { 0.0 },
        memory_bytes: own.max(|o| o.rss).unwrap_or(0.0) as u64,
    }
}

/// Returns the seconds that the observer has run, if the window begins just after its start.
fn seconds_since_start(window: &Window, own: &Observer) -> Option<f64> {
    let pid = own.pid.get()? as u32;
    let process =
        |sample: &Snapshot| Process::rows(sample).iter().find(|row| row.task.pid == pid).map(|row| row.task.start);
    let start = window.snapshots().iter().rev().find_map(process)?.checked_mul(CLOCK_TICK_NS)?;
    let (first, last) = (window.snapshots().first()?.boot_ns, window.last()?.boot_ns);
    (first.saturating_sub(start) <= STARTING_NS).then(|| last.saturating_sub(start) as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SECOND, window};
    use whyslow_model::key::{MachineKey, TaskKey};

    /// Returns the cost over these seconds since boot, of an observer that started after four seconds and uses a tenth of one of
    /// two CPUs, after a second of CPU time for loading.
    fn cost_of(seconds: std::ops::RangeInclusive<u64>, source: Origin) -> (f64, f64) {
        let window = window(seconds.map(|second| second - 1), |second, sample| {
            let ran = second + 1 - 4;
            let cpu_time = SECOND + ran * SECOND / 10;
            sample.kernel.observer =
                vec![Observer { cpu_time: cpu_time.into(), pid: 7_u64.into(), ..Observer::new(MachineKey) }];
            sample.kernel.machine = vec![MachineInfo { processors: 2_u64.into(), ..MachineInfo::new(MachineKey) }];
            sample.task.process = vec![Process::new(TaskKey { pid: 7, tid: 7, start: 400 })];
        });
        let cost = cost(&window, source);
        let to_thousandths = |value: f64| (value * 1000.0).round() / 1000.0;
        (to_thousandths(cost.cpu_seconds), to_thousandths(cost.cpu_share))
    }

    #[test]
    fn the_cost_and_the_time_that_it_is_a_share_of_begin_together() {
        // Just started: two seconds of CPU time in ten seconds of two CPUs.
        assert_eq!(cost_of(5..=14, Origin::Live), (2.0, 0.1));
        // Hours later, only the cost within the window: a second in ten.
        assert_eq!(cost_of(10_000..=10_010, Origin::Live), (1.0, 0.05));
        assert_eq!(cost_of(5..=15, Origin::Recording), (1.0, 0.05));
    }
}
