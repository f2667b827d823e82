//! Counters that the kernel keeps only per thread: the value of a process is the sum over its threads.

use super::pid_files::ProcessStatus;
use super::system_call::SleepReason;
use whyslow_model::key::TaskKey;

/// The values of one thread, or a sum over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadStats {
    /// Nanoseconds on a CPU; unchanged if the thread has not run.
    pub(super) run: Option<u64>,
    /// Nanoseconds on a run queue.
    pub(super) run_delay: Option<u64>,
    /// Nanoseconds waiting for block I/O.
    pub(super) block_delay: Option<u64>,
    /// Nanoseconds waiting for pages to be swapped in.
    pub(super) swap_delay: Option<u64>,
    /// Nanoseconds waiting for memory to be reclaimed.
    pub(super) reclaim_delay: Option<u64>,
    pub(super) voluntary_switches: Option<u64>,
    pub(super) involuntary_switches: Option<u64>,
    pub(super) migrations: Option<u64>,
    /// The reason why it sleeps, if it does; `None` in a sum.
    pub(super) sleep: Option<SleepReason>,
}

impl ThreadStats {
    fn add(self, other: Self) -> Self {
        Self {
            run: sum(self.run, other.run),
            run_delay: sum(self.run_delay, other.run_delay),
            block_delay: sum(self.block_delay, other.block_delay),
            swap_delay: sum(self.swap_delay, other.swap_delay),
            reclaim_delay: sum(self.reclaim_delay, other.reclaim_delay),
            voluntary_switches: sum(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: sum(self.involuntary_switches, other.involuntary_switches),
            migrations: sum(self.migrations, other.migrations),
            sleep: None,
        }
    }

    pub(super) fn put_switches(&mut self, status: &ProcessStatus) {
        self.voluntary_switches = status.voluntary_switches;
        self.involuntary_switches = status.involuntary_switches;
    }

    /// Whether the thread may have run since `before`; true if the kernel does not count run time.
    pub(super) fn may_have_run_since(&self, before: &Self) -> bool {
        self.run.is_none() || self.run != before.run
    }
}

/// Adds two values. A thread that has not run yet has no values and adds nothing.
fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    }
}

/// The values of all threads of a process, including ended ones, so that the sums only grow.
#[derive(Debug, Default)]
pub(super) struct ProcessThreads {
    /// Sorted by key.
    threads: Vec<(TaskKey, ThreadStats)>,
    /// Sums of ended threads. Boxed, because most processes have none.
    ended: Option<Box<ThreadStats>>,
}

impl ProcessThreads {
    /// Returns a thread's values at the last sample.
    pub(super) fn get(&self, thread: &TaskKey) -> Option<&ThreadStats> {
        self.threads.binary_search_by_key(thread, |t| t.0).ok().map(|i| &self.threads[i].1)
    }

    /// Replaces the threads, which must be sorted by key. The last values of ended threads stay in the sums.
    pub(super) fn update(&mut self, threads: Vec<(TaskKey, ThreadStats)>) {
        let before = std::mem::replace(&mut self.threads, threads);
        for (key, stats) in before {
            if self.get(&key).is_none() {
                let ended = self.ended.get_or_insert_default();
                **ended = ended.add(stats);
            }
        }
    }

    pub(super) fn get_mut(&mut self, thread: &TaskKey) -> Option<&mut ThreadStats> {
        self.threads.binary_search_by_key(thread, |t| t.0).ok().map(|i| &mut self.threads[i].1)
    }

    pub(super) fn total(&self) -> ThreadStats {
        self.threads.iter().fold(self.ended.as_deref().copied().unwrap_or_default(), |sum, (_, stats)| sum.add(*stats))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, run_delay: u64) -> (TaskKey, ThreadStats) {
        (TaskKey { pid: 1, tid, start: 5 }, ThreadStats { run_delay: Some(run_delay), ..ThreadStats::default() })
    }

    #[test]
    fn a_sum_does_not_shrink_when_threads_end() {
        let mut process = ProcessThreads::default();
        process.update(vec![thread(1, 10), thread(2, 100), thread(3, 1000)]);
        assert_eq!(process.total().run_delay, Some(1110));
        process.update(vec![thread(1, 11), thread(3, 1000)]);
        assert_eq!(process.total().run_delay, Some(1111));
        process.update(vec![thread(1, 12)]);
        assert_eq!(process.total().run_delay, Some(1112));
    }

    #[test]
    fn a_value_that_no_thread_has_is_absent() {
        let mut process = ProcessThreads::default();
        process.update(vec![thread(1, 10)]);
        assert_eq!(process.total().block_delay, None);
        assert!(process.total().may_have_run_since(&process.total()));
    }
}
