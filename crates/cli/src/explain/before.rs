//! What changed just before an episode.

use crate::recordings::to_the_millisecond;
use std::collections::BTreeMap;
use std::time::Duration;
use whyslow_model::catalogue::{Disk, Family, Interface, MachineInfo, Mount, Process, Queue, Setting};
use whyslow_model::diagnosis::{Culprit, Diagnosis};
use whyslow_model::explanation::TimelineEvent;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Value;
use whyslow_model::window::Window;
use whyslow_store::{Recording, StoreError};

/// How long before it began a change is looked for.
const BEFORE_NS: i64 = 75 * 1_000_000_000;
/// And how long after: what is seen in the next sample may have come first.
const AFTER_NS: i64 = 1_500_000_000;
/// Clock ticks of a process' start (USER_HZ, which is 100 wherever Linux runs today).
const TICK_NS: i64 = 10_000_000;
/// How many changes are reported, the most recent ones.
const MOST: usize = 8;

/// What began, came, went or was set in the minute before `start`; of processes, those that a finding is about.
pub fn changes(
    recording: &Recording,
    start: i64,
    diagnosis: &Diagnosis,
    key: &str,
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
    let mut events = Vec::new();
    let span = start.saturating_sub(BEFORE_NS)..=start.saturating_add(AFTER_NS);
    recording.each_window(&span, Duration::MAX, &wanted, |window| {
        states::<Setting>(&window, "setting", &mut events);
        states::<Queue>(&window, "queue of", &mut events);
        states::<MachineInfo>(&window, "machine", &mut events);
        came_and_went::<Mount>(&window, "mount", &mut events);
        came_and_went::<Disk>(&window, "disk", &mut events);
        came_and_went::<Interface>(&window, "interface", &mut events);
        began(&window, diagnosis, key, &mut events);
        true
    })?;
    events.sort();
    let skip = events.len().saturating_sub(MOST);
    Ok(events.into_iter().skip(skip).map(|(at, what)| TimelineEvent { at: to_the_millisecond(at), what }).collect())
}

type Events = Vec<(i64, String)>;

/// Words of a family that are others than before.
fn states<F: Family>(window: &Window, kind: &str, events: &mut Events) {
    let mut known: BTreeMap<F::Key, &F> = BTreeMap::new();
    for sample in window.snapshots() {
        for row in F::rows(sample) {
            if let Some(before) = known.insert(row.key().clone(), row) {
                for (column, metric) in F::INFO.metrics.iter().enumerate() {
                    if let (Some(Value::State(was)), Some(Value::State(is))) = (before.value(column), row.value(column))
                        && let (Some(was), Some(is)) = (was.get(), is.get())
                        && was != is
                    {
                        let what = format!("{kind} {}: {} was {was}, is {is}", row.key(), metric.name);
                        events.push((sample.wall_ns, what));
                    }
                }
            }
        }
    }
}

/// Entities that were not there before, or are not any more.
fn came_and_went<F: Family>(window: &Window, kind: &str, events: &mut Events) {
    let mut before: Option<&Snapshot> = None;
    for sample in window.snapshots().iter().filter(|sample| !F::rows(sample).is_empty()) {
        if let Some(before) = before.replace(sample) {
            let missing = |row: &&F, from: &Snapshot| from.row::<F>(row.key()).is_none();
            for row in F::rows(sample).iter().filter(|row| missing(row, before)) {
                events.push((sample.wall_ns, format!("{kind} {} came", row.key())));
            }
            for row in F::rows(before).iter().filter(|row| missing(row, sample)) {
                events.push((sample.wall_ns, format!("{kind} {} went", row.key())));
            }
        }
    }
}

/// The beginning of processes that the finding blames or is about.
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
            events.push((at, format!("process {} [{pid}] began", row.command.get().unwrap_or("?"))));
        }
    }
}
