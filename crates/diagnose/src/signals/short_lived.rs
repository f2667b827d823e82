//! CPU time of processes that ended before they could be sampled.
//!
//! Where process exits are traced, each exit reports its CPU time. Elsewhere it is inferred: when a process waits for a child,
//! it is charged the child's whole time (cutime and cstime of proc(5)), including that of the child's own children. Subtracting
//! the time that samples saw while the child lived leaves the time that no sample saw.

use std::collections::BTreeMap;
use whyslow_model::catalogue::Process;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

/// Children of a process that no sample saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShortLivedChildren {
    /// CPUs used.
    pub cpu: f64,
    /// Exits per second; `None` if inferred.
    pub rate: Option<f64>,
    /// The program that used most.
    pub name: Option<String>,
}

/// Returns the unseen children, by parent.
pub fn by_parent(window: &Window) -> BTreeMap<u32, ShortLivedChildren> {
    if is_watched(window) { reported(window) } else { inferred(window) }
}

/// Returns true if process exits were traced: then each process that ended has a row with state X.
fn is_watched(window: &Window) -> bool {
    let ended = |p: &Process| p.state.get() == Some("X");
    window.snapshots().iter().any(|s| !s.task.exited_children.is_empty() || s.task.process.iter().any(ended))
}

fn reported(window: &Window) -> BTreeMap<u32, ShortLivedChildren> {
    let seconds = window.seconds();
    let mut parents: BTreeMap<u32, (ShortLivedChildren, f64)> = BTreeMap::new();
    // The exits in the first snapshot happened before the window.
    for row in window.snapshots().iter().skip(1).flat_map(|s| &s.task.exited_children) {
        let cpu = (row.user.get().unwrap_or(0.0) + row.system.get().unwrap_or(0.0)) / 1e9 / seconds;
        let rate = row.ended.get().unwrap_or(0.0) / seconds;
        let (unseen, most) = parents.entry(row.offspring.parent.pid).or_default();
        unseen.cpu += cpu;
        unseen.rate = Some(unseen.rate.unwrap_or(0.0) + rate);
        if cpu >= *most {
            *most = cpu;
            unseen.name = Some(row.offspring.name.to_string());
        }
    }
    parents.into_iter().map(|(pid, (unseen, _))| (pid, unseen)).collect()
}

fn inferred(window: &Window) -> BTreeMap<u32, ShortLivedChildren> {
    let seconds = window.seconds();
    let mut parents: BTreeMap<u32, f64> = BTreeMap::new();
    for pair in window.snapshots().windows(2) {
        for (pid, ns) in between(&pair[0], &pair[1]) {
            *parents.entry(pid).or_default() += ns;
        }
    }
    parents.retain(|_, ns| *ns > 0.0);
    let unseen = |ns: f64| ShortLivedChildren { cpu: ns / 1e9 / seconds, ..ShortLivedChildren::default() };
    parents.into_iter().map(|(pid, ns)| (pid, unseen(ns))).collect()
}

/// Returns the nanoseconds of unseen children's time from one snapshot to the next, by parent.
fn between(before: &Snapshot, after: &Snapshot) -> BTreeMap<u32, f64> {
    let mut charged: BTreeMap<u32, f64> = BTreeMap::new();
    for now in &after.task.process {
        if let Some(then) = before.row::<Process>(&now.task)
            && let Some(ns) = children(now).zip(children(then)).map(|(b, a)| b - a)
            && ns > 0.0
        {
            charged.insert(now.task.pid, ns);
        }
    }
    let gone: BTreeMap<u32, &Process> = before
        .task
        .process
        .iter()
        .filter(|p| after.row::<Process>(&p.task).is_none())
        .map(|p| (p.task.pid, p))
        .collect();
    for process in gone.values() {
        if let Some(ns) = survivor(process, &gone).and_then(|pid| charged.get_mut(&pid)) {
            let seen = process.user.get().unwrap_or(0) + process.system.get().unwrap_or(0);
            *ns -= seen as f64 + children(process).unwrap_or(0.0);
        }
    }
    charged
}

/// Returns the nearest ancestor that still exists: where parent and child end between two samples, the time of both goes up to
/// the grandparent.
fn survivor(process: &Process, gone: &BTreeMap<u32, &Process>) -> Option<u32> {
    let mut parent = parent(process)?;
    // A process tree has no cycles, but the data read of it may: PIDs can be reused between reads.
    for _ in 0..gone.len() {
        match gone.get(&parent) {
            Some(dead) => parent = self::parent(dead)?,
            None => break,
        }
    }
    Some(parent)
}

fn parent(process: &Process) -> Option<u32> {
    process.parent.get().map(|pid| pid as u32)
}

fn children(p: &Process) -> Option<f64> {
    Some((p.children_user.get()? + p.children_system.get()?) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SECOND, window};
    use whyslow_model::catalogue::{ExitedChildren, ProcessRow};
    use whyslow_model::key::{Offspring, TaskKey};

    fn process(pid: u32, parent: u64, own: u64, children: u64) -> Process {
        Process::from(ProcessRow {
            parent: parent.into(),
            user: own.into(),
            system: 0.into(),
            children_user: children.into(),
            children_system: 0.into(),
            ..ProcessRow::new(TaskKey { pid, tid: pid, start: 1 })
        })
    }

    fn samples(samples: Vec<Vec<Process>>) -> Window {
        window(0..samples.len() as u64, |t, s| s.task.process.clone_from(&samples[t as usize]))
    }

    fn charged(window: &Window) -> Vec<(u32, f64)> {
        by_parent(window).into_iter().map(|(pid, unseen)| (pid, unseen.cpu)).collect()
    }

    #[test]
    fn the_ends_that_were_seen_are_counted_not_inferred() {
        let exited = |name: &str, ended: u64, ns: u64| ExitedChildren {
            ended: ended.into(),
            user: ns.into(),
            ..ExitedChildren::new(Offspring { parent: process(7, 1, 0, 0).task, name: name.into() })
        };
        let unseen = by_parent(&window(0..3, |t, s| {
            s.task.process.push(process(7, 1, 0, t * SECOND));
            s.task.exited_children = vec![exited("true", 100, SECOND / 4), exited("sed", 1, SECOND / 2)];
        }));
        assert_eq!(
            unseen,
            BTreeMap::from([(7, ShortLivedChildren { cpu: 0.75, rate: Some(101.0), name: Some("sed".into()) })])
        );
    }

    #[test]
    fn children_no_sample_saw_are_charged_to_the_parent() {
        let w = samples(vec![vec![process(7, 1, 0, 0)], vec![process(7, 1, 0, SECOND / 2)]]);
        assert_eq!(charged(&w), [(7, 0.5)]);
    }

    #[test]
    fn a_child_that_was_seen_for_an_hour_is_no_short_lived_one() {
        let hour = 3600 * SECOND;
        let w =
            samples(vec![vec![process(7, 1, 0, 0), process(8, 7, hour, 0)], vec![process(7, 1, 0, hour + SECOND / 4)]]);
        assert_eq!(charged(&w), [(7, 0.25)]);
    }

    #[test]
    fn what_was_seen_of_a_family_that_ends_together_is_no_short_lived_ones() {
        let hour = 3600 * SECOND;
        let w = samples(vec![
            vec![process(7, 1, 0, 0), process(8, 7, SECOND, 0), process(9, 8, hour, 0)],
            vec![process(7, 1, 0, hour + SECOND + SECOND / 4)],
        ]);
        assert_eq!(charged(&w), [(7, 0.25)]);
    }
}
