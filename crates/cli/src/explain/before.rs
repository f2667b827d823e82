//! Changes just before an episode.

use crate::recordings::to_the_millisecond;
use std::collections::BTreeMap;
use std::time::Duration;
use whyslow_documents::diagnosis::{Culprit, Diagnosis};
use whyslow_documents::explanation::TimelineEvent;
use whyslow_model::catalogue::{Disk, Family, Interface, MachineInfo, Mount, Process, Queue, Setting};
use whyslow_model::inventory::{MachineChange, RESTARTED, UNIT};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Value;
use whyslow_model::window::Window;
use whyslow_store::{Recording, StoreError};

/// Time before the start of an episode in which to look for changes.
const BEFORE_NS: i64 = 75 * 1_000_000_000;
/// Time after the start in which to look for changes: a change seen in the next sample may have come first.
const AFTER_NS: i64 = 1_500_000_000;
/// Time before the start for changes of the machine: they may take effect later, when the changed object is used or
/// started.
pub const HOUR_NS: i64 = 3600 * 1_000_000_000;
/// The recorder looks for such changes once a minute; includes a margin.
const SEEN_NS: i64 = 75 * 1_000_000_000;
/// Length of a clock tick in a process's start time (USER_HZ, which is 100 wherever Linux runs today).
const TICK_NS: i64 = 10_000_000;
/// Maximum number of reported changes in the minute and in the hour, the most recent ones.
const MOST: usize = 8;
/// Maximum number of simultaneous changes of a kind that are listed separately; more are combined.
const MOST_ALIKE: usize = 3;

/// Returns what started, appeared, disappeared or was set in the minute before `start`, limited to the finding's
/// processes; and the `machine`'s changes in the hour before.
pub fn changes(
    recording: &Recording,
    start: i64,
    diagnosis: &Diagnosis,
    key: &str,
    machine: &[MachineChange],
) -> Result<Vec<TimelineEvent>, StoreError> {
    let wanted = |family: &str| {
        [
            Setting::INFO.name,
            Mount::INFO.name,
            Queue::INFO.name,
            Disk::INFO.name,
            Interface::INFO.name,
            MachineInfo::INFO.name,
            Process::INFO.name,
        ]
        .contains(&family)
    };
    let (mut settings, mut queues, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let span = start.saturating_sub(BEFORE_NS)..=start.saturating_add(AFTER_NS);
    recording.each_window(&span, Duration::MAX, &wanted, |window| {
        settings.extend(states::<Setting>(&window));
        queues.extend(states::<Queue>(&window));
        events.extend(states::<MachineInfo>(&window).iter().map(|state| state.event("machine")));
        came_and_went::<Mount>(&window, "mount", &mut events);
        came_and_went::<Disk>(&window, "disk", &mut events);
        came_and_went::<Interface>(&window, "interface", &mut events);
        began(&window, diagnosis, key, &mut events);
        true
    })?;
    let mut all = of_machine(machine, start, |change| match &*change.kind {
        "sysctl" => settings.iter().any(|setting| setting.of == *change.name),
        // The inventory names disks by their model: `MODEL scheduler`.
        "disk" => queues.iter().any(|queue| queue.is_seen_in(change)),
        _ => false,
    });
    events.extend(settings.iter().map(|setting| setting.event("setting")));
    events.extend(queues.iter().map(|queue| queue.event("queue of")));
    all.append(&mut most_recent(events));
    all.sort();
    Ok(all.into_iter().map(|(at, what)| TimelineEvent { at: to_the_millisecond(at), what }).collect())
}

type Events = Vec<(i64, String)>;

fn most_recent(mut events: Events) -> Events {
    events.sort();
    events.split_off(events.len().saturating_sub(MOST))
}

/// Returns changes of the machine in the hour before `start`, except those already listed.
fn of_machine(machine: &[MachineChange], start: i64, is_listed: impl Fn(&MachineChange) -> bool) -> Events {
    let span = start.saturating_sub(HOUR_NS)..=start.saturating_add(SEEN_NS);
    let mut alike: BTreeMap<(i64, &str), Vec<&MachineChange>> = BTreeMap::new();
    for change in machine.iter().filter(|change| span.contains(&change.at) && !is_listed(change)) {
        alike.entry((change.at, &*change.kind)).or_default().push(change);
    }
    let in_words = |((at, kind), changes): ((i64, &str), Vec<&MachineChange>)| -> Events {
        match changes.len() {
            0..=MOST_ALIKE => changes.iter().map(|change| (at, change.in_words())).collect(),
            _ => vec![(at, together(kind, &changes))],
        }
    };
    most_recent(alike.into_iter().flat_map(in_words).collect())
}

/// Formats `12 packages changed: bash, libc6, openssl and 9 others`.
fn together(kind: &str, changes: &[&MachineChange]) -> String {
    let things = match kind {
        "kernel" | "machine" => format!("properties of the {kind}"),
        "disk" => "settings of disks".to_owned(),
        "firmware" => "versions of firmware".to_owned(),
        kind => format!("{kind}s"),
    };
    let names: Vec<&str> = changes.iter().take(MOST_ALIKE).map(|change| &*change.name).collect();
    let done = if kind == UNIT { RESTARTED } else { "changed" };
    let others = match changes.len() - names.len() {
        1 => "1 other".to_owned(),
        others => format!("{others} others"),
    };
    format!("{} {things} {done}: {} and {others}", changes.len(), names.join(", "))
}

/// A changed state metric of a family.
struct StateChange {
    at: i64,
    /// Key of the row.
    of: String,
    metric: &'static str,
    was: String,
    is: String,
}

impl StateChange {
    fn event(&self, kind: &str) -> (i64, String) {
        let Self { at, of, metric, was, is } = self;
        (*at, format!("{kind} {of}: {metric} was {was}, is {is}"))
    }

    /// Returns whether the inventory's change is this one.
    fn is_seen_in(&self, change: &MachineChange) -> bool {
        let is_metric = change.name.rsplit_once(' ').is_some_and(|(_, name)| name == self.metric);
        is_metric && change.old.as_deref() == Some(&self.was) && change.new.as_deref() == Some(&self.is)
    }
}

fn states<F: Family>(window: &Window) -> Vec<StateChange> {
    let mut known: BTreeMap<F::Key, &F> = BTreeMap::new();
    let mut changes = Vec::new();
    for sample in window.snapshots() {
        for row in F::rows(sample) {
            let Some(before) = known.insert(row.key().clone(), row) else { continue };
            for (column, metric) in F::INFO.metrics.iter().enumerate() {
                if let (Some(Value::State(was)), Some(Value::State(is))) = (before.value(column), row.value(column))
                    && let (Some(was), Some(is)) = (was.get(), is.get())
                    && was != is
                {
                    let (was, is) = (was.to_owned(), is.to_owned());
                    changes.push(StateChange {
                        at: sample.wall_ns,
                        of: row.key().to_string(),
                        metric: metric.name,
                        was,
                        is,
                    });
                }
            }
        }
    }
    changes
}

/// Adds entities that appeared or disappeared.
fn came_and_went<F: Family>(window: &Window, kind: &str, events: &mut Events) {
    let mut before: Option<&Snapshot> = None;
    for sample in window.snapshots().iter().filter(|sample| !F::rows(sample).is_empty()) {
        if let Some(before) = before.replace(sample) {
            let missing = |row: &&F, from: &Snapshot| from.row::<F>(row.key()).is_none();
            for row in F::rows(sample).iter().filter(|row| missing(row, before)) {
                events.push((sample.wall_ns, format!("{kind} {} appeared", row.key())));
            }
            for row in F::rows(before).iter().filter(|row| missing(row, sample)) {
                events.push((sample.wall_ns, format!("{kind} {} was removed", row.key())));
            }
        }
    }
}

/// Adds the start of processes that the finding blames or is about.
fn began(window: &Window, diagnosis: &Diagnosis, key: &str, events: &mut Events) {
    let Some(finding) = diagnosis.findings.iter().find(|finding| finding.key() == key) else { return };
    let (Some(first), Some(last)) = (window.snapshots().first(), window.last()) else { return };
    let pids = finding.subject.pid.into_iter().chain(finding.culprits.iter().flat_map(Culprit::processes));
    let mut seen = Vec::new();
    for pid in pids {
        let row = Process::rows(last).iter().find(|row| row.task.pid == pid);
        let Some(row) = row.filter(|_| !seen.contains(&pid)) else { continue };
        seen.push(pid);
        let start = i64::try_from(row.task.start).unwrap_or(i64::MAX).saturating_mul(TICK_NS);
        let at = last.wall_ns.saturating_sub_unsigned(last.boot_ns).saturating_add(start);
        if at >= first.wall_ns {
            events.push((at, format!("process {} [{pid}] started", row.command.get().unwrap_or("?"))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60 * 1_000_000_000;

    fn change(at: i64, kind: &str, name: &str) -> MachineChange {
        MachineChange { at, kind: kind.into(), name: name.into(), old: Some("1".into()), new: Some("2".into()) }
    }

    #[test]
    fn changes_of_the_machine_in_the_hour_before_are_listed() {
        let start = 100 * MINUTE;
        let machine = [
            change(start - 61 * MINUTE, "package", "old"),
            change(start - 59 * MINUTE, "package", "bash"),
            change(start - 10 * MINUTE, "sysctl", "vm.swappiness"),
            change(start + MINUTE, "kernel", "release"),
            change(start + 2 * MINUTE, "package", "later"),
        ];
        assert_eq!(
            of_machine(&machine, start, |change| *change.name == *"vm.swappiness"),
            [
                (start - 59 * MINUTE, "package bash: was 1, is 2".to_owned()),
                (start + MINUTE, "kernel release: was 1, is 2".to_owned()),
            ]
        );
    }

    #[test]
    fn a_queue_that_is_listed_is_not_listed_again() {
        let queue =
            |was: &str| StateChange { at: 0, of: "sda".into(), metric: "scheduler", was: was.into(), is: "2".into() };
        assert!(queue("1").is_seen_in(&change(0, "disk", "Fast Disk scheduler")));
        assert!(!queue("1").is_seen_in(&change(0, "disk", "Fast Disk nr_requests")));
        assert!(!queue("3").is_seen_in(&change(0, "disk", "Fast Disk scheduler")), "another disk");
    }

    #[test]
    fn many_changes_at_a_time_are_one_line() {
        let names = ["a", "b", "c", "d", "e"];
        let packages = names.map(|name| change(7, "package", name));
        let expected = [(7, "5 packages changed: a, b, c and 2 others".to_owned())];
        assert_eq!(of_machine(&packages, 8, |_| false), expected);
        let units = names.map(|name| change(7, UNIT, name));
        assert_eq!(together(UNIT, &units[..4].iter().collect::<Vec<_>>()), "4 units restarted: a, b, c and 1 other");
    }
}
