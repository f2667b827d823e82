//! Processor time of processes that lived too short to be sampled.
//!
//! A process that waits for a child is charged the child's whole time at that moment (cutime and cstime of proc(5)), the
//! time of the child's own children included. What of it was seen while the child lived is taken off again; what
//! remains is time that no sample saw.

use std::collections::BTreeMap;
use whyslow_model::catalogue::Process;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;

/// Processors' worth of unseen children's time, by parent.
pub fn by_parent(window: &Window) -> BTreeMap<u32, f64> {
    let seconds = window.seconds();
    let mut unseen: BTreeMap<u32, f64> = BTreeMap::new();
    for pair in window.snapshots().windows(2) {
        for (pid, ns) in between(&pair[0], &pair[1]) {
            *unseen.entry(pid).or_default() += ns;
        }
    }
    unseen.retain(|_, ns| *ns > 0.0);
    unseen.values_mut().for_each(|ns| *ns /= seconds * 1e9);
    unseen
}

/// Nanoseconds of unseen children's time from one snapshot to the next, by parent.
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

/// The nearest ancestor that is still there: where parent and child end between two samples, the time of both goes up
/// to the grandparent.
fn survivor(process: &Process, gone: &BTreeMap<u32, &Process>) -> Option<u32> {
    let mut parent = parent(process)?;
    // A family tree has no circles, but what was read of it may: a number can be given anew meanwhile.
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
    use whyslow_model::key::TaskKey;

    const SECOND: u64 = 1_000_000_000;

    fn process(pid: u32, parent: u64, own: u64, children: u64) -> Process {
        Process {
            parent: parent.into(),
            user: own.into(),
            system: 0.into(),
            children_user: children.into(),
            children_system: 0.into(),
            ..Process::new(TaskKey { pid, tid: pid, start: 1 })
        }
    }

    fn window(samples: Vec<Vec<Process>>) -> Window {
        let snapshots = samples.into_iter().enumerate().map(|(i, processes)| {
            let mut s = Snapshot { boot_ns: (i as u64 + 1) * SECOND, ..Snapshot::default() };
            s.task.process = processes;
            s.sort();
            s
        });
        Window::new(snapshots.collect())
    }

    #[test]
    fn children_no_sample_saw_are_charged_to_the_parent() {
        let w = window(vec![vec![process(7, 1, 0, 0)], vec![process(7, 1, 0, SECOND / 2)]]);
        assert_eq!(by_parent(&w), BTreeMap::from([(7, 0.5)]));
    }

    #[test]
    fn a_child_that_was_seen_for_an_hour_is_no_short_lived_one() {
        let hour = 3600 * SECOND;
        let w =
            window(vec![vec![process(7, 1, 0, 0), process(8, 7, hour, 0)], vec![process(7, 1, 0, hour + SECOND / 4)]]);
        assert_eq!(by_parent(&w), BTreeMap::from([(7, 0.25)]));
    }

    #[test]
    fn what_was_seen_of_a_family_that_ends_together_is_no_short_lived_ones() {
        let hour = 3600 * SECOND;
        let w = window(vec![
            vec![process(7, 1, 0, 0), process(8, 7, SECOND, 0), process(9, 8, hour, 0)],
            vec![process(7, 1, 0, hour + SECOND + SECOND / 4)],
        ]);
        assert_eq!(by_parent(&w), BTreeMap::from([(7, 0.25)]));
    }
}
