//! Coverage of a window: every known signal of each entity, and the resources that captures lack.

use crate::facts::Facts;
use crate::scope::Scope;
use crate::signal::{Entity, Signal};
use whyslow_documents::diagnosis::{BlindSpot, Evidence, NOT_CAPTURED, Reading, SubjectFigures};
use whyslow_model::window::Window;

/// Evidence that part of a resource was captured: signals of the host, or entities of a scope.
enum Shown {
    By(&'static [&'static str]),
    On(Scope),
}

/// A resource and the test for whether captures cover it.
struct Resource {
    name: &'static str,
    /// The resource is covered if at least one of these signals is known.
    shown_by: &'static [&'static str],
    /// Evidence of partial coverage, and the name of what is still missing.
    in_part: (Shown, &'static str),
    /// The capture that would show it.
    remedy: &'static str,
}

const RESOURCES: [Resource; 3] = [
    Resource {
        name: "the CPUs",
        shown_by: &["cpu.busy"],
        in_part: (Shown::By(&["cpu.runnable", "cpu.load_1m"]), "the use of the CPUs"),
        remedy: "add the output of: mpstat -P ALL 1 10",
    },
    Resource {
        name: "memory",
        shown_by: &["mem.total", "mem.cached", "mem.swap_in_rate"],
        in_part: (Shown::By(&["mem.major_faults", "mem.read_rate", "mem.direct_scan_rate"]), "how much memory is free"),
        remedy: "add the output of: vmstat 1 10; free -m",
    },
    Resource {
        name: "the network",
        shown_by: &["net.bytes_rate", "net.retransmit_share"],
        in_part: (Shown::On(Scope::Interface), "the traffic of the network"),
        remedy: "add the output of: sar -n DEV,TCP,ETCP 1 10",
    },
];
/// Scopes that are a blind spot if they have no entities.
const THINGS: [(Scope, &str, &str); 2] = [
    (Scope::Disk, "the block devices", "add the output of: iostat -x 1 10"),
    (Scope::Process, "the processes", "add the output of: top -b -n 2"),
];

/// Returns the known signals over a window of each entity in a listed scope.
pub fn known_signals(window: &Window) -> Vec<SubjectFigures> {
    of_facts(&Facts::from_window(window))
}

/// Like [`known_signals`], from facts already computed.
pub(crate) fn of_facts(facts: &Facts) -> Vec<SubjectFigures> {
    let listed = Scope::ALL.iter().filter(|scope| scope.is_listed());
    listed
        .flat_map(|scope| facts.entities(*scope))
        .map(|entity| {
            let values = entity.signals.iter().zip(&entity.values);
            let known = values.filter_map(|(signal, value)| evidence(facts, entity, signal, value));
            SubjectFigures { subject: entity.subject.clone(), values: known.collect() }
        })
        .filter(|figures| !figures.values.is_empty())
        .collect()
}

/// Returns a signal's value with its formula and source; `None` if it is unknown.
pub(crate) fn evidence(facts: &Facts, entity: &Entity, signal: &Signal, value: &Option<Reading>) -> Option<Evidence> {
    let is_known = |value: &Reading| !matches!(value, Reading::Text(text) if text.is_empty() || text == "unknown");
    let evidence = Evidence {
        metric: signal.name.to_owned(),
        value: value.clone().filter(is_known)?,
        unit: signal.unit.to_owned(),
        expected: String::new(),
        source: facts.source_of(signal, entity),
        how: facts.sources.formula(signal.how, signal.source),
    };
    // A signal without a source line was computed from an empty table: no devices, no sharers.
    Some(evidence).filter(|evidence| !evidence.source.is_empty() || signal.source.is_empty())
}

/// Returns the resources that no capture covers, neither now nor, in `since_boot`, on average.
pub(crate) fn not_captured(facts: &Facts, since_boot: Option<&Facts>) -> Vec<BlindSpot> {
    let is_known = |facts: &Facts, signals: &[&str]| signals.iter().any(|s| facts.host_number(s).is_some());
    let has = |facts: &Facts, scope: Scope| !facts.entities(scope).is_empty();
    let all = || [Some(facts), since_boot].into_iter().flatten();
    let resources = RESOURCES.iter().filter(|resource| !all().any(|facts| is_known(facts, resource.shown_by))).map(
        |Resource { name, in_part: (part, lacking), remedy, .. }| {
            let is_seen = |facts| match part {
                Shown::By(signals) => is_known(facts, signals),
                Shown::On(scope) => has(facts, *scope),
            };
            (if all().any(is_seen) { lacking } else { name }, remedy)
        },
    );
    let things = THINGS
        .iter()
        .filter(|(scope, ..)| !all().any(|facts| has(facts, *scope)))
        .map(|(_, what, remedy)| (what, remedy));
    let spots = resources.chain(things).map(|(what, remedy)| BlindSpot {
        what: (*what).into(),
        why: NOT_CAPTURED.into(),
        remedy: (*remedy).into(),
    });
    spots.chain(uncounted(facts)).chain(facts.impossible.iter().cloned()).collect()
}

/// Returns a blind spot for the number of CPUs, by which the run queue is judged, if only their average was captured.
fn uncounted(facts: &Facts) -> Option<BlindSpot> {
    let mean = facts.host_number("cpu.busy").is_some() && facts.host_number("cpu.count").is_none();
    mean.then(|| BlindSpot {
        what: "the number of CPUs".into(),
        why: "only their average is reported, so how many of the runnable tasks wait is unknown".into(),
        remedy: "add the output of: mpstat -P ALL 1 10".into(),
    })
}
