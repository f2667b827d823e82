//! Threads that wait for each other's locks, by process.

use crate::signal::{over, share_of_true, sum};
use std::collections::BTreeMap;
use whyslow_model::catalogue::Thread;
use whyslow_model::window::{Change, Window};

/// Lock waits of the threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LockUse {
    /// Mean number of its threads that slept for a lock.
    pub waiters: f64,
    /// Mean number of its threads that slept uninterruptibly.
    pub blocked: f64,
}

impl LockUse {
    /// Returns the lock waits as a share of all the time in which its threads had work to do: lock waits, running, waiting for a
    /// CPU, and waiting in the kernel.
    pub fn share(&self, cpu: Option<f64>, run_delay: Option<f64>) -> Option<f64> {
        over(Some(self.waiters), sum([Some(self.waiters), Some(self.blocked), cpu, run_delay]))
    }
}

/// Returns the lock waits by PID, for processes whose threads were sampled. A thread that never ran adds nothing: it is parked.
pub fn by_process(window: &Window) -> BTreeMap<u32, LockUse> {
    let mut all: BTreeMap<u32, LockUse> = BTreeMap::new();
    for change in window.changes::<Thread>() {
        if let Some(waits) = change.mean(|t| t.lock_wait).filter(|_| ran(&change)) {
            let process = all.entry(change.key().pid).or_default();
            process.waiters += waits;
            process.blocked += blocked(&change);
        }
    }
    all
}

fn ran(change: &Change<'_, Thread>) -> bool {
    sum([change.grown(|t| t.voluntary_switches), change.grown(|t| t.involuntary_switches)]).is_some_and(|s| s > 0.0)
}

fn blocked(change: &Change<'_, Thread>) -> f64 {
    share_of_true(change.rows().map(|t| t.state.get() == Some("D"))).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;
    use whyslow_model::key::TaskKey;

    /// Returns thread `tid` of process 7, at one instant.
    fn thread(tid: u32, switches: u64, state: &str, lock_wait: Option<f64>) -> Thread {
        let mut row = Thread::new(TaskKey { pid: 7, tid, start: 1 });
        row.voluntary_switches = switches.into();
        row.state = state.into();
        row.lock_wait = lock_wait.map_or(row.lock_wait, Into::into);
        row
    }

    #[test]
    fn waiters_are_a_mean_over_samples_and_a_sum_over_threads() {
        // Thread 7 waits in every second known sample, thread 8 in all; 9 sleeps in the kernel in all four.
        let samples = window(0..4, |t, s| {
            let known = |wait: f64| (t > 0).then_some(wait);
            let waits = [(7, "S", (t % 2) as f64), (8, "S", 1.0), (9, "D", 0.0)];
            s.task.thread.extend(waits.map(|(tid, state, wait)| thread(tid, t, state, known(wait))));
        });
        let found = by_process(&samples)[&7];
        assert!((found.waiters - (2.0 / 3.0 + 1.0)).abs() < 1e-9, "{found:?}");
        assert_eq!(found.blocked, 1.0);
        // 5/3 waiting beside 1 blocked, 0.2 running and 0.1 waiting for a CPU.
        let share = found.share(Some(0.2), Some(0.1)).unwrap();
        assert!((share - (5.0 / 3.0) / (5.0 / 3.0 + 1.3)).abs() < 1e-9, "{share}");
    }

    #[test]
    fn a_thread_that_never_ran_is_parked_whatever_it_seems_to_wait_for() {
        let parked = window(0..4, |_, s| s.task.thread.push(thread(7, 5, "S", Some(1.0))));
        assert!(by_process(&parked).is_empty());
    }

    #[test]
    fn nothing_wanted_is_no_share() {
        assert_eq!(LockUse::default().share(Some(0.0), None), None);
    }
}
