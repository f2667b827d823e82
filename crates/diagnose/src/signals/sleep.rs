//! Waits and memory work of the threads of a process, and the number of threads that each thread kept waiting, from BPF.

use crate::signal::{over, ratio, sum};
use std::collections::BTreeMap;
use whyslow_model::catalogue::{DirectReclaim, KernelLock, LockHolder, Sleep};
use whyslow_model::key::TaskKey;
use whyslow_model::value::Counter;
use whyslow_model::window::{Change, Window};

/// Mean numbers of threads of a process that waited for something; `None` if not traced.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SleepUse {
    /// Waiting for locks in user space.
    pub lock: Option<f64>,
    /// Lock waits per second.
    pub lock_waits: Option<f64>,
    /// Waiting in futex(2) for anything else.
    pub futex: Option<f64>,
    /// Waiting for memory.
    pub memory: Option<f64>,
    /// Of those waiting for memory, throttled because too much memory was dirty.
    pub dirty_throttle: Option<f64>,
    /// Waiting for block I/O.
    pub block_io: Option<f64>,
    /// Waiting for the other end of a socket.
    pub network: Option<f64>,
    /// Waiting for the other end of a pipe.
    pub pipe: Option<f64>,
    /// Waiting for locks within the kernel, spinning included.
    pub kernel_lock: Option<f64>,
    /// Reclaiming or compacting memory themselves.
    pub reclaim: ReclaimUse,
    /// Mean time on a run queue each time, seconds.
    pub run_queue: Option<f64>,
    /// 99th percentile of the time on a run queue, seconds.
    pub run_queue_p99: Option<f64>,
    /// Migrations per second of threads that ran.
    pub moved_running: Option<f64>,
    /// Migrations per second of threads that woke.
    pub moved_waking: Option<f64>,
}

impl SleepUse {
    /// Returns the lock waits as a share of all the time in which its threads had work to do: lock waits, running, waiting for a
    /// CPU, for a disk and for memory.
    pub fn lock_share(&self, cpu: Option<f64>, run_delay: Option<f64>) -> Option<f64> {
        self.lock?;
        over(self.lock, sum([self.lock, self.block_io, self.memory, cpu, run_delay]))
    }
}

/// Mean numbers of threads of a process that worked for their own memory; `None` if not traced.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReclaimUse {
    /// Reclaiming memory of the machine.
    pub machine: Option<f64>,
    /// Reclaiming memory of their control group, at its limit.
    pub group: Option<f64>,
    /// Compacting memory, or reclaiming some for that.
    pub compaction: Option<f64>,
    /// Compactions per second.
    pub compactions: Option<f64>,
    /// 99th percentile of their duration, seconds.
    pub compaction_p99: Option<f64>,
}

impl ReclaimUse {
    fn from_change(change: &Change<'_, DirectReclaim>) -> Self {
        let mean = |f: fn(&DirectReclaim) -> Counter| ratio(change.rate(f));
        Self {
            machine: mean(|r| r.reclaim),
            group: mean(|r| r.group_reclaim),
            compaction: sum([mean(|r| r.compaction), mean(|r| r.large_reclaim)]),
            compactions: sum([change.rate(|r| r.compactions), change.rate(|r| r.large_reclaims)]),
            compaction_p99: ratio(change.histogram(|r| &r.compaction_latency).and_then(|h| h.quantile(0.99))),
        }
    }

    /// Returns the mean number of threads over all three kinds of work.
    pub fn all(&self) -> Option<f64> {
        sum([self.machine, self.group, self.compaction])
    }
}

/// Returns the waits by process.
pub fn by_process(window: &Window) -> BTreeMap<TaskKey, SleepUse> {
    let mut all: BTreeMap<TaskKey, SleepUse> =
        window.changes::<Sleep>().iter().map(|change| (*change.key(), sleep_use(change))).collect();
    for change in window.changes::<KernelLock>() {
        all.entry(*change.key()).or_default().kernel_lock = kernel_lock(&change);
    }
    for change in window.changes::<DirectReclaim>() {
        all.entry(*change.key()).or_default().reclaim = ReclaimUse::from_change(&change);
    }
    all
}

fn sleep_use(change: &Change<'_, Sleep>) -> SleepUse {
    let mean = |f: fn(&Sleep) -> Counter| ratio(change.rate(f));
    SleepUse {
        lock: mean(|s| s.lock),
        lock_waits: change.rate(|s| s.lock_waits),
        futex: mean(|s| s.futex),
        memory: mean(|s| s.memory),
        dirty_throttle: mean(|s| s.dirty_throttle),
        block_io: mean(|s| s.block_io),
        network: mean(|s| s.network),
        pipe: mean(|s| s.pipe),
        kernel_lock: None,
        reclaim: ReclaimUse::default(),
        run_queue: over(mean(|s| s.run_queue), change.rate(|s| s.run_queue_waits)),
        run_queue_p99: ratio(change.histogram(|s| &s.run_queue_latency).and_then(|h| h.quantile(0.99))),
        moved_running: change.rate(|s| s.moved_running),
        moved_waking: change.rate(|s| s.moved_waking),
    }
}

fn kernel_lock(change: &Change<'_, KernelLock>) -> Option<f64> {
    ratio(sum([
        change.rate(|l| l.spinning),
        change.rate(|l| l.mutexes),
        change.rate(|l| l.readers),
        change.rate(|l| l.writers),
        change.rate(|l| l.others),
    ]))
}

/// Returns the mean number of other threads that waited for each thread to release a lock.
pub fn kept_waiting(window: &Window) -> BTreeMap<TaskKey, f64> {
    let holders = window.changes::<LockHolder>();
    holders.iter().filter_map(|change| Some((*change.key(), ratio(change.rate(|h| h.kept_waiting))?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SECOND, window};
    use whyslow_model::histogram::Histogram;

    const KEY: TaskKey = TaskKey { pid: 7, tid: 7, start: 1 };

    #[test]
    fn time_asleep_is_a_mean_number_of_threads() {
        let found = by_process(&window([0, 2], |t, s| {
            s.task.sleep.push(Sleep {
                lock: (t * 3 * SECOND).into(),
                lock_waits: (t * 200).into(),
                block_io: (t * SECOND / 2).into(),
                memory: 0.into(),
                dirty_throttle: (t * SECOND / 5).into(),
                run_queue: (t * 4_000_000).into(),
                run_queue_waits: (t * 1000).into(),
                ..Sleep::new(KEY)
            });
            s.task.kernel_lock.push(KernelLock {
                spinning: (t * SECOND / 4).into(),
                mutexes: (t * SECOND / 2).into(),
                ..KernelLock::new(KEY)
            });
        }))[&KEY];
        assert_eq!((found.lock, found.lock_waits, found.kernel_lock), (Some(3.0), Some(200.0), Some(0.75)));
        assert!((found.run_queue.unwrap() - 4e-6).abs() < 1e-12, "{found:?}");
        assert_eq!(found.dirty_throttle, Some(0.2));
        assert_eq!(found.network, None, "not read is not zero");
        // Three for locks, 0.5 for a disk, 0.4 running and 0.1 waiting for a CPU.
        assert_eq!(found.lock_share(Some(0.4), Some(0.1)), Some(0.75));
        assert_eq!(SleepUse::default().lock_share(Some(0.4), None), None);
    }

    #[test]
    fn work_for_memory_is_a_mean_number_of_threads() {
        let found = by_process(&window([0, 2], |t, s| {
            s.task.direct_reclaim.push(DirectReclaim {
                reclaim: (t * SECOND / 4).into(),
                group_reclaim: 0.into(),
                large_reclaim: (t * SECOND / 8).into(),
                large_reclaims: (t * 3).into(),
                compaction: (t * SECOND).into(),
                compactions: (t * 7).into(),
                compaction_latency: Histogram::from_values(vec![2_000_000; 10 * t as usize]),
                ..DirectReclaim::new(KEY)
            });
        }))[&KEY]
            .reclaim;
        assert_eq!((found.machine, found.group), (Some(0.25), Some(0.0)));
        // A block of several pages also needs reclaim: 1 and 1/8 threads, 7 and 3 times per second.
        assert_eq!((found.compaction, found.compactions), (Some(1.125), Some(10.0)));
        assert_eq!(found.all(), Some(1.375));
        let p99 = found.compaction_p99.unwrap();
        assert!((p99 / 0.002 - 1.0).abs() < 0.02, "{p99}");
        assert_eq!(ReclaimUse::default().all(), None, "not traced is not zero");
    }

    #[test]
    fn who_keeps_others_waiting() {
        let found = kept_waiting(&window([0, 2], |t, s| {
            s.task.lock_holder.push(LockHolder { kept_waiting: (t * 5 * SECOND).into(), ..LockHolder::new(KEY) });
        }));
        assert_eq!(found, BTreeMap::from([(KEY, 5.0)]));
    }
}
