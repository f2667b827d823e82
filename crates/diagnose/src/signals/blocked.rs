//! Who was blocked, by the state in which each sample found every thread.
//!
//! Pressure (PSI) tells how long any task of the machine waited, but is a mean over the CPUs, weighted by how long each was not
//! idle (Documentation/accounting/psi.rst): work on other CPUs dilutes it. A thread's own state is not diluted.

use super::task::{Columns, PROCESS, THREAD, TaskUse};
use crate::signal::{in_group, over, ratio, sum};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Family, Process, Thread};
use whyslow_model::key::TaskKey;
use whyslow_model::value::State;
use whyslow_model::window::{Change, Window};

/// Where tasks sleep uninterruptibly that wait for nothing but another process of their own making: a vfork parent.
pub(super) const HARMLESS_SLEEPS: [&str; 3] = ["kernel_clone", "wait_for_vfork_done", "_do_fork"];

/// Which processes had a thread in uninterruptible sleep, sample by sample.
#[derive(Debug, Default)]
pub struct Blocked {
    samples: Vec<BTreeSet<u32>>,
    threads: BTreeMap<u32, Vec<ThreadWait>>,
}

/// How a thread was found, and for how long it was blocked.
#[derive(Clone, Copy, Debug)]
struct ThreadWait {
    /// Samples in uninterruptible sleep.
    blocked: usize,
    /// Samples asleep in any way.
    asleep: usize,
    /// Share of the window in which it was blocked.
    share: f64,
}

fn is_blocked(state: &State, place: &State) -> bool {
    state.get() == Some("D") && place.get().is_none_or(|place| !HARMLESS_SLEEPS.contains(&place))
}

impl ThreadWait {
    /// `None` where it was never found blocked.
    fn of<F: Family<Key = TaskKey>>(change: &Change<'_, F>, columns: &Columns<F>) -> Option<Self> {
        let blocked = change.rows().filter(|r| is_blocked((columns.state)(r), (columns.wait_channel)(r))).count();
        let asleep = change.rows().filter(|r| matches!((columns.state)(r).get(), Some("D" | "S" | "I"))).count();
        if blocked == 0 {
            return None;
        }
        // The time not spent on or waiting for a CPU is known exactly; the samples tell which part of it was blocked.
        let running = ratio(sum([change.grown(columns.user), change.grown(columns.system)]));
        let not_asleep = sum([running, ratio(change.grown(columns.run_delay))]);
        let rows = change.rows().count() as f64;
        let sampled = match not_asleep {
            Some(seconds) => (change.seconds() - seconds).max(0.0) * blocked as f64 / asleep as f64,
            None => change.seconds() * blocked as f64 / rows,
        };
        let seconds = ratio(change.grown(columns.block_delay)).filter(|s| *s > 0.0).unwrap_or(sampled);
        let share = over(Some(seconds), Some(change.window_seconds()))?.min(1.0);
        Some(Self { blocked, asleep, share })
    }
}

impl Blocked {
    /// Of the live machine; `None` for what other tools printed, which list few processes and not at the same times.
    pub fn of(window: &Window) -> Option<Self> {
        if !window.origins().is_empty() {
            return None;
        }
        let mut all = Self::default();
        for snapshot in window.snapshots().iter().filter(|s| !s.task.process.is_empty()) {
            let processes = snapshot.task.process.iter().filter(|p| is_blocked(&p.state, &p.wait_channel));
            let threads = snapshot.task.thread.iter().filter(|t| is_blocked(&t.state, &t.wait_channel));
            all.samples.push(processes.map(|p| p.task.pid).chain(threads.map(|t| t.task.pid)).collect());
        }
        for change in window.changes::<Thread>() {
            let waits = ThreadWait::of(&change, &THREAD);
            all.threads.entry(change.key().pid).or_default().extend(waits);
        }
        for change in window.changes::<Process>() {
            let waits = || ThreadWait::of(&change, &PROCESS).into_iter().collect();
            all.threads.entry(change.key().pid).or_insert_with(waits);
        }
        (all.samples.len() >= 2).then_some(all)
    }

    /// Share of the time in which a thread of one of these processes was blocked.
    pub fn share(&self, pids: &BTreeSet<u32>) -> f64 {
        let threads: Vec<&ThreadWait> = self.of_these(pids).collect();
        let longest = threads.iter().map(|thread| thread.share).fold(0.0, f64::max);
        if threads.len() < 2 {
            return longest;
        }
        let samples = self.samples.iter().filter(|blocked| !blocked.is_disjoint(pids)).count();
        longest.max(samples as f64 / self.samples.len() as f64)
    }

    /// How much of their sleep those threads are blocked that were found so at all: 1 where each asks for the next thing as
    /// soon as it has got the last, less where they pace themselves or wait for other things, too.
    pub fn persistence(&self, pids: &BTreeSet<u32>) -> Option<f64> {
        let sums = self.of_these(pids).fold((0, 0), |(b, a), thread| (b + thread.blocked, a + thread.asleep));
        over(Some(sums.0 as f64), Some(sums.1 as f64))
    }

    fn of_these(&self, pids: &BTreeSet<u32>) -> impl Iterator<Item = &ThreadWait> {
        pids.iter().filter_map(|pid| self.threads.get(pid)).flatten()
    }
}

/// The processes that were blocked, by control group.
#[derive(Debug)]
pub struct Members<'w> {
    blocked: Option<&'w Blocked>,
    processes: Vec<(u32, Option<&'w str>)>,
}

impl<'w> Members<'w> {
    /// Of all processes those that were blocked, but for the kernel's own threads.
    pub fn new(tasks: &'w [TaskUse], blocked: Option<&'w Blocked>) -> Self {
        let was_blocked = |pid| blocked.is_some_and(|b| b.threads.get(&pid).is_some_and(|waits| !waits.is_empty()));
        let processes = tasks.iter().filter(|task| !task.kernel && was_blocked(task.key.pid));
        Self { blocked, processes: processes.map(|task| (task.key.pid, task.cgroup.as_deref())).collect() }
    }

    /// Share of the time in which a thread within the group was blocked; `None` where nobody looked.
    pub fn blocked_share(&self, group: &str) -> Option<f64> {
        let within = self.processes.iter().filter(|(_, cgroup)| in_group(*cgroup, group));
        Some(self.blocked?.share(&within.map(|(pid, _)| *pid).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::catalogue::ProcessRow;
    use whyslow_model::snapshot::Snapshot;

    const SECOND: u64 = 1_000_000_000;

    /// Processes from pid 1 on, found in these states second by second; each uses a tenth of a CPU.
    fn blocked(states: &[&str]) -> Blocked {
        let sample = |second: usize| {
            let mut s = Snapshot { boot_ns: (second as u64 + 1) * SECOND, ..Snapshot::default() };
            for (pid, states) in (1..).zip(states) {
                let key = TaskKey { pid, tid: pid, start: 1 };
                let row = ProcessRow {
                    state: states[second..=second].into(),
                    user: (second as u64 * SECOND / 10).into(),
                    system: 0.into(),
                    run_delay: 0.into(),
                    ..ProcessRow::new(key)
                };
                s.task.process.push(row.into());
            }
            s
        };
        Blocked::of(&Window::new((0..states[0].len()).map(sample).collect())).unwrap()
    }

    fn share(states: &[&str]) -> f64 {
        blocked(states).share(&(1..=states.len() as u32).collect())
    }

    #[test]
    fn what_one_thread_neither_ran_nor_slept_otherwise_it_was_blocked() {
        assert!((share(&["DDDRDD"]) - 0.9).abs() < 1e-9, "whatever the samples found it doing as it ran");
        assert!((share(&["DSDSDS"]) - 0.45).abs() < 1e-9);
        assert_eq!(share(&["SSSRSS"]), 0.0);
    }

    #[test]
    fn of_several_any_one_will_do() {
        assert_eq!(share(&["DDDSSS", "SSSDDD"]), 1.0);
        assert_eq!(blocked(&["DDDSSS", "SSSDDD"]).share(&BTreeSet::from([2])), 0.45);
    }

    #[test]
    fn who_paces_himself_is_told_from_who_asks_without_pause() {
        let persistence = |states: &[&str]| blocked(states).persistence(&BTreeSet::from([1, 2]));
        assert_eq!(persistence(&["DDRDDD", "SSSSSS"]), Some(1.0), "who was never blocked does not count");
        assert_eq!(persistence(&["DSDSDS", "SDSDSD"]), Some(0.5));
        assert_eq!(persistence(&["SSSSSS", "RRRRRR"]), None);
    }
}
