//! What the kernel keeps of each thread but not of the process: the process' figure is a sum over its threads.

use super::status::Status;
use whyslow_model::key::TaskKey;

/// One thread's figures, or a sum of several threads'. `None` where the kernel does not give it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Nanoseconds on a processor: as long as they stand still, the thread has not run.
    pub(super) run: Option<u64>,
    /// Nanoseconds on a run queue, waiting for a processor.
    pub(super) run_delay: Option<u64>,
    /// Nanoseconds waiting for block I/O.
    pub(super) block_delay: Option<u64>,
    /// Nanoseconds waiting for pages to be swapped in.
    pub(super) swap_delay: Option<u64>,
    /// Nanoseconds waiting for memory to be reclaimed.
    pub(super) reclaim_delay: Option<u64>,
    /// Times it gave the processor up to wait.
    pub(super) voluntary_switches: Option<u64>,
    /// Times the processor was taken from it.
    pub(super) involuntary_switches: Option<u64>,
    /// Times it moved to another processor.
    pub(super) migrations: Option<u64>,
    /// Whether it sleeps for a lock; a sum has none.
    pub(super) waits_for_lock: Option<bool>,
}

impl Tally {
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
            waits_for_lock: None,
        }
    }

    /// Takes over the switches of a status file.
    pub(super) fn put_switches(&mut self, status: &Status) {
        self.voluntary_switches = status.voluntary_switches;
        self.involuntary_switches = status.involuntary_switches;
    }

    /// Whether the thread may have run since `before`. Where the kernel does not tell, it may.
    pub(super) fn may_have_run_since(&self, before: &Self) -> bool {
        self.run.is_none() || self.run != before.run
    }
}

/// A thread that has not run yet has no figures of its own and adds nothing to the sum.
fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    }
}

/// The figures of all threads of a process, those that ended included, so that the sums only grow.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// In order of key.
    threads: Vec<(TaskKey, Tally)>,
    /// Of most processes none has ended.
    ended: Option<Box<Tally>>,
}

impl Ledger {
    /// A thread's figures at the last sample.
    pub(super) fn of(&self, thread: &TaskKey) -> Option<&Tally> {
        self.threads.binary_search_by_key(thread, |t| t.0).ok().map(|i| &self.threads[i].1)
    }

    /// Takes over this sample's threads, in order of key. What the missing ones had last stays in the sums.
    pub(super) fn turn(&mut self, threads: Vec<(TaskKey, Tally)>) {
        let before = std::mem::replace(&mut self.threads, threads);
        for (key, tally) in before {
            if self.of(&key).is_none() {
                let ended = self.ended.get_or_insert_default();
                **ended = ended.add(tally);
            }
        }
    }

    /// A thread's figures, to put in what is read later than the rest.
    pub(super) fn of_mut(&mut self, thread: &TaskKey) -> Option<&mut Tally> {
        self.threads.binary_search_by_key(thread, |t| t.0).ok().map(|i| &mut self.threads[i].1)
    }

    /// The sums.
    pub(super) fn total(&self) -> Tally {
        self.threads.iter().fold(self.ended.as_deref().copied().unwrap_or_default(), |sum, (_, tally)| sum.add(*tally))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, run_delay: u64) -> (TaskKey, Tally) {
        (TaskKey { pid: 1, tid, start: 5 }, Tally { run_delay: Some(run_delay), ..Tally::default() })
    }

    #[test]
    fn a_sum_never_shrinks_when_threads_end() {
        let mut ledger = Ledger::default();
        ledger.turn(vec![thread(1, 10), thread(2, 100), thread(3, 1000)]);
        assert_eq!(ledger.total().run_delay, Some(1110));
        ledger.turn(vec![thread(1, 11), thread(3, 1000)]);
        assert_eq!(ledger.total().run_delay, Some(1111));
        ledger.turn(vec![thread(1, 12)]);
        assert_eq!(ledger.total().run_delay, Some(1112));
    }

    #[test]
    fn what_no_thread_tells_is_not_zero() {
        let mut ledger = Ledger::default();
        ledger.turn(vec![thread(1, 10)]);
        assert_eq!(ledger.total().block_delay, None);
        assert!(ledger.total().may_have_run_since(&ledger.total()));
    }
}
