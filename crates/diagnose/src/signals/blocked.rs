//! Finds blocked threads and processes by the state of every thread in each sample.
//!
//! Pressure (PSI) shows how long any task of the machine waited, but is a mean over the CPUs, weighted by how long each was not
//! idle (Documentation/accounting/psi.rst): work on other CPUs dilutes it. A thread's own state is not diluted. The state of a
//! process is that of its main thread alone, which in a database or a Java program only waits for the other threads.

use crate::signal::{over, ratio, sum};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Family, Process, Requester, Thread};
use whyslow_model::key::TaskKey;
pub(super) use whyslow_model::sleep::Sleep;
use whyslow_model::value::{Counter, Gauge, State};
use whyslow_model::window::{Change, Window};

/// Wait channels of a task that waits for a page to be read, of the page cache or from swap, by kernel version (mm/filemap.c).
pub(super) const PAGE_WAITS: [&str; 6] = [
    "folio_wait_bit_common",
    "folio_put_wait_locked",
    "wait_on_page_bit_common",
    "put_and_wait_on_page_locked",
    "__lock_page_killable",
    "wait_on_page_bit_killable",
];

/// Wait channels of a task that the kernel throttles because too much memory is dirty (mm/page-writeback.c).
pub(super) const DIRTY_WAITS: [&str; 2] = ["balance_dirty_pages", "balance_dirty_pages_ratelimited"];

/// Wait channels of a task that waits for a flush of a device, or for a commit of the file system's journal or log, as in
/// fsync(2): block/bio.c, block/blk-flush.c, fs/jbd2/journal.c, fs/xfs/xfs_log.c, fs/btrfs/tree-log.c and transaction.c,
/// fs/f2fs/segment.c.
const FLUSH_WAITS: [&str; 13] = [
    "submit_bio_wait",
    "blk_wait_io",
    "blkdev_issue_flush",
    "jbd2_log_wait_commit",
    "xlog_wait_on_iclog",
    "xlog_force_lsn",
    "xfs_log_force_seq",
    "btrfs_sync_log",
    "wait_log_commit",
    "btrfs_commit_transaction",
    "wait_for_commit",
    "f2fs_issue_flush",
    "md_flush_request",
];

macro_rules! task_row {
    (states: $($state:ident)*; counters: $($counter:ident)*) => {
        /// Metrics that processes and threads have in common.
        pub(super) trait TaskRow: Family<Key = TaskKey> {
            $( fn $state(&self) -> &State; )*
            $( fn $counter(&self) -> Counter; )*
            fn nice(&self) -> Gauge;
        }

        task_row! { Process; $($state)*; $($counter)* }
        task_row! { Thread; $($state)*; $($counter)* }
    };
    ($Row:ident; $($state:ident)*; $($counter:ident)*) => {
        impl TaskRow for $Row {
            $( fn $state(&self) -> &State { &self.$state } )*
            $( fn $counter(&self) -> Counter { self.$counter } )*
            fn nice(&self) -> Gauge { self.nice }
        }
    };
}

task_row! {
    states: command state wait_channel;
    counters: user system cpu_time run_delay block_delay voluntary_switches involuntary_switches migrations
}

/// A process that waits for asynchronous I/O counts as waiting for storage if its requests were in flight for at least this part
/// of that time.
const IN_FLIGHT: f64 = 0.5;

/// Returns the processes that wait in the system calls of asynchronous I/O, but not for storage: for sockets, or for nothing.
fn idle_waiters(window: &Window, processes: &[Change<'_, Process>]) -> BTreeSet<u32> {
    let mut in_flight: BTreeMap<u32, f64> = BTreeMap::new();
    for change in window.changes::<Requester>() {
        let time = ratio(sum([change.rate(|r| r.queue_time), change.rate(|r| r.device_time)]));
        *in_flight.entry(change.key().task.pid).or_default() += time.unwrap_or(0.0);
    }
    // Behind some devices (dm-crypt), kernel workers issue the requests; the byte counts always belong to the process.
    let traced = |p: &Change<'_, Process>| in_flight.get(&p.key().pid).copied();
    let untouched = |p: &Change<'_, Process>| sum([p.grown(|p| p.read_bytes), p.grown(|p| p.write_bytes)]) == Some(0.0);
    let waits = |row: &Process| Sleep::from_state(&row.state, &row.wait_channel) == Some(Sleep::AsyncIo);
    let idle = processes.iter().filter(|process| {
        let found = process.rows().filter(|row| waits(row)).count() as f64 / process.rows().count() as f64;
        traced(process).map_or_else(|| untouched(process), |in_flight| in_flight < IN_FLIGHT * found)
    });
    idle.map(|process| process.key().pid).collect()
}

/// Processes that had a blocked thread, sample by sample.
#[derive(Debug, Default)]
pub struct Blocked {
    /// Blocked processes in each sample that lists processes.
    samples: Vec<BTreeSet<u32>>,
    processes: BTreeMap<u32, ProcessWaits>,
    /// Whether the samples show every process at the same time, as those of the live machine do. Other tools list few processes,
    /// and not at the same times.
    shows_all: bool,
}

/// States in which the samples found the threads of a process.
#[derive(Debug, Default)]
struct ProcessWaits {
    /// Samples that include the process.
    seen: usize,
    /// Samples that found one of its threads blocked.
    blocked: usize,
    /// How often a thread was found blocked at each wait channel.
    places: BTreeMap<String, usize>,
    /// Threads that were ever found blocked.
    threads: Vec<ThreadWait>,
}

/// Sampled states of a thread, and how long it was blocked.
#[derive(Clone, Copy, Debug)]
struct ThreadWait {
    /// Samples in which it was blocked.
    blocked: usize,
    /// Samples asleep in any way.
    asleep: usize,
    /// Share of the window in which it was blocked.
    share: f64,
    /// Whether it was found waiting for asynchronous I/O.
    is_async: bool,
}

impl ThreadWait {
    /// Returns `None` if the thread was never found blocked.
    fn from_change<R: TaskRow>(change: &Change<'_, R>, is_idle: bool) -> Option<Self> {
        let sleeps: Vec<Sleep> = change.rows().filter_map(|r| Sleep::from_state(r.state(), r.wait_channel())).collect();
        let found = |kind| sleeps.iter().filter(|sleep| **sleep == kind).count();
        let async_io = if is_idle { 0 } else { found(Sleep::AsyncIo) };
        let uninterruptible = found(Sleep::Uninterruptible);
        if uninterruptible + async_io == 0 {
            return None;
        }
        // The time not spent on or waiting for a CPU is known exactly; the samples show which part of it was blocked.
        let running = ratio(sum([change.grown(R::user), change.grown(R::system)]));
        let not_asleep = sum([running, ratio(change.grown(R::run_delay))]);
        let rows = change.rows().count();
        let sampled = |count: usize| match not_asleep {
            Some(seconds) => (change.seconds() - seconds).max(0.0) * count as f64 / sleeps.len() as f64,
            None => change.seconds() * count as f64 / rows as f64,
        };
        let measured = ratio(change.grown(R::block_delay)).filter(|s| *s > 0.0);
        let seconds = measured.unwrap_or_else(|| sampled(uninterruptible)) + sampled(async_io);
        let share = over(Some(seconds), Some(change.window_seconds()))?.min(1.0);
        Some(Self { blocked: uninterruptible + async_io, asleep: sleeps.len(), share, is_async: async_io > 0 })
    }
}

impl Blocked {
    /// Collects the blocked threads of all samples with processes.
    pub fn from_window(window: &Window) -> Self {
        let mut all = Self { shows_all: window.origins().is_empty(), ..Self::default() };
        let processes = window.changes::<Process>();
        let idle = idle_waiters(window, &processes);
        for snapshot in window.snapshots().iter().filter(|s| !s.task.process.is_empty()) {
            let processes = snapshot.task.process.iter().map(|p| (p.task.pid, &p.state, &p.wait_channel));
            let threads = snapshot.task.thread.iter().map(|t| (t.task.pid, &t.state, &t.wait_channel));
            let is_blocked = |pid, state, place| match Sleep::from_state(state, place) {
                Some(Sleep::AsyncIo) => !idle.contains(&pid),
                sleep => sleep.is_some_and(Sleep::is_blocked),
            };
            let mut blocked = BTreeSet::new();
            let found = processes.chain(threads).filter(|(pid, state, place)| is_blocked(*pid, *state, *place));
            for (pid, _, place) in found {
                blocked.insert(pid);
                let places = &mut all.processes.entry(pid).or_default().places;
                if let Some(place) = place.get() {
                    *places.entry(place.to_owned()).or_default() += 1;
                }
            }
            for pid in &blocked {
                all.processes.entry(*pid).or_default().blocked += 1;
            }
            all.samples.push(blocked);
        }
        all.count_seen(window);
        for change in window.changes::<Thread>() {
            if let Some(process) = all.processes.get_mut(&change.key().pid) {
                process.threads.extend(ThreadWait::from_change(&change, idle.contains(&change.key().pid)));
            }
        }
        for change in &processes {
            if let Some(process) = all.processes.get_mut(&change.key().pid).filter(|p| p.threads.is_empty()) {
                process.threads.extend(ThreadWait::from_change(change, idle.contains(&change.key().pid)));
            }
        }
        all
    }

    fn count_seen(&mut self, window: &Window) {
        for process in window.snapshots().iter().flat_map(|s| &s.task.process) {
            if let Some(waits) = self.processes.get_mut(&process.task.pid) {
                waits.seen += 1;
            }
        }
    }

    /// Returns the share of the samples in which a thread of this process was blocked, and the most frequent wait channel.
    pub(super) fn of_process(&self, pid: u32) -> Option<(f64, Option<&str>)> {
        let process = self.processes.get(&pid)?;
        let place = process.places.iter().max_by_key(|(_, times)| **times).map(|(place, _)| &**place);
        Some((over(Some(process.blocked as f64), Some(process.seen as f64))?, place))
    }

    /// Returns the mean number of threads of this process that waited for a flush, over all samples.
    pub(super) fn flush_waiters(&self, pid: u32) -> f64 {
        let found = |process: &ProcessWaits| FLUSH_WAITS.iter().filter_map(|p| process.places.get(*p)).sum::<usize>();
        self.processes.get(&pid).map_or(0.0, |process| found(process) as f64 / self.samples.len() as f64)
    }

    /// Returns itself if its shares of samples can stand for shares of time: several samples, each of all processes.
    pub fn over_time(&self) -> Option<&Self> {
        (self.shows_all && self.samples.len() >= 2).then_some(self)
    }

    /// Returns the share of the time in which a thread of one of these processes was blocked.
    pub fn share(&self, pids: &BTreeSet<u32>) -> f64 {
        let threads: Vec<&ThreadWait> = self.of_these(pids).collect();
        let longest = threads.iter().map(|thread| thread.share).fold(0.0, f64::max);
        if threads.len() < 2 {
            return longest;
        }
        let samples = self.samples.iter().filter(|blocked| !blocked.is_disjoint(pids)).count();
        longest.max(samples as f64 / self.samples.len() as f64)
    }

    /// Returns those of these processes that were blocked at these wait channels more often than anywhere else.
    fn waiting_at(&self, places: &[&str], pids: impl Iterator<Item = u32>) -> BTreeSet<u32> {
        let waits =
            |pid: &u32| self.of_process(*pid).is_some_and(|(_, place)| place.is_some_and(|p| places.contains(&p)));
        pids.filter(waits).collect()
    }

    /// Returns those of these processes that were blocked on page reads more often than on anything else.
    pub(super) fn waiting_for_pages(&self, pids: impl Iterator<Item = u32>) -> BTreeSet<u32> {
        self.waiting_at(&PAGE_WAITS, pids)
    }

    /// Returns the share of the time in which one of these processes was throttled because too much memory was dirty; counts
    /// only processes that were blocked on that more often than on anything else.
    pub(super) fn dirty_wait_share(&self, pids: impl Iterator<Item = u32>) -> f64 {
        self.share(&self.waiting_at(&DIRTY_WAITS, pids))
    }

    /// Returns the share of the time in which any process waited for pages to be read.
    pub(super) fn page_wait_share(&self) -> f64 {
        self.share(&self.waiting_for_pages(self.processes.keys().copied()))
    }

    /// Returns the part of their sleep in which the threads that were ever found blocked are blocked: 1 where each sends the
    /// next request as soon as the last completes, less where they pace themselves or also wait for other things.
    pub fn persistence(&self, pids: &BTreeSet<u32>) -> Option<f64> {
        let sums = self.of_these(pids).fold((0, 0), |(b, a), thread| (b + thread.blocked, a + thread.asleep));
        over(Some(sums.0 as f64), Some(sums.1 as f64))
    }

    /// Returns, for each thread of these processes that was found blocked, the share of the time in which it was; `None` if one
    /// waited for asynchronous I/O, because it can have several requests in flight.
    pub(super) fn synchronous_waits(&self, pids: &BTreeSet<u32>) -> Option<Vec<f64>> {
        self.of_these(pids).map(|thread| (!thread.is_async).then_some(thread.share)).collect()
    }

    /// Returns true if one of its threads was ever found blocked.
    pub(super) fn was_blocked(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|process| !process.threads.is_empty())
    }

    fn of_these(&self, pids: &BTreeSet<u32>) -> impl Iterator<Item = &ThreadWait> {
        pids.iter().filter_map(|pid| self.processes.get(pid)).flat_map(|process| &process.threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SECOND, window};
    use whyslow_model::catalogue::ProcessRow;
    use whyslow_model::key::{OperationKey, RequesterKey};

    /// Returns processes from PID 1 on, in these states second by second; each uses a tenth of a CPU.
    fn blocked(states: &[&str]) -> Blocked {
        let window = window(0..states[0].len() as u64, |t, s| {
            let second = t as usize;
            for (pid, states) in (1..).zip(states) {
                let key = TaskKey { pid, tid: pid, start: 1 };
                // In capitals as in the kernel; `a` is asleep for asynchronous I/O.
                let (state, place) = match &states[second..=second] {
                    "a" => ("S", "io_getevents"),
                    state => (state, ""),
                };
                let row = ProcessRow {
                    state: state.into(),
                    wait_channel: place.into(),
                    user: (t * SECOND / 10).into(),
                    system: 0.into(),
                    run_delay: 0.into(),
                    ..ProcessRow::new(key)
                };
                s.task.process.push(row.into());
            }
        });
        Blocked::from_window(&window)
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
    fn who_waits_for_asynchronous_io_is_blocked_as_well() {
        assert!((share(&["aaaRaa"]) - 0.9).abs() < 1e-9);
        assert!((share(&["aDSaDS"]) - 0.6).abs() < 1e-9);
    }

    #[test]
    fn who_waits_for_completions_with_nothing_in_flight_is_idle() {
        let of = |bytes: u64, in_flight: Option<f64>| {
            let window = window(0..5, |t, s| {
                let key = TaskKey { pid: 1, tid: 1, start: 1 };
                let row = ProcessRow {
                    state: "S".into(),
                    wait_channel: "io_uring_enter".into(),
                    read_bytes: (t * bytes).into(),
                    write_bytes: 0.into(),
                    ..ProcessRow::new(key)
                };
                s.task.process.push(row.into());
                if let Some(requests) = in_flight {
                    let on = OperationKey { device: "vda".into(), operation: "read".into() };
                    let key = RequesterKey { task: key, cgroup: "/".into(), on };
                    let time = (t as f64 * requests * SECOND as f64) as u64;
                    let row = Requester { queue_time: 0.into(), device_time: time.into(), ..Requester::new(key) };
                    s.block.requester.push(row);
                }
            });
            Blocked::from_window(&window).share(&BTreeSet::from([1]))
        };
        assert_eq!([of(4096, Some(0.9)), of(4096, Some(0.1))], [1.0, 0.0], "by its requests");
        assert_eq!([of(4096, None), of(0, None)], [1.0, 0.0], "by its bytes, where requests are not traced");
    }

    #[test]
    fn a_process_is_blocked_while_any_of_its_threads_is() {
        let key = |tid| TaskKey { pid: 7, tid, start: 1 };
        let waits = [&[8][..], &[9], &[8, 9], &[]];
        let window = window(0..4, |t, s| {
            s.task.process.push(ProcessRow { state: "S".into(), threads: 3.into(), ..ProcessRow::new(key(7)) }.into());
            for tid in [8, 9] {
                let (state, place) =
                    if waits[t as usize].contains(&tid) { ("D", "jbd2_log_wait_commit") } else { ("S", "futex") };
                s.task.thread.push(Thread { state: state.into(), wait_channel: place.into(), ..Thread::new(key(tid)) });
            }
        });
        let blocked = Blocked::from_window(&window);
        assert_eq!(blocked.of_process(7), Some((0.75, Some("jbd2_log_wait_commit"))));
        assert_eq!([blocked.flush_waiters(7), blocked.flush_waiters(8)], [1.0, 0.0]);
    }

    #[test]
    fn writers_that_are_held_back_are_told_from_those_that_wait_for_something_else() {
        let window = window(0..4, |_, s| {
            for (pid, place) in [(1, "balance_dirty_pages"), (2, "folio_wait_bit_common")] {
                let key = TaskKey { pid, tid: pid, start: 1 };
                let row = ProcessRow { state: "D".into(), wait_channel: place.into(), ..ProcessRow::new(key) };
                s.task.process.push(row.into());
            }
        });
        let blocked = Blocked::from_window(&window);
        let share = |pid| blocked.dirty_wait_share(std::iter::once(pid));
        assert_eq!([share(1), share(2), share(3)], [1.0, 0.0, 0.0]);
    }

    #[test]
    fn of_several_any_one_will_do() {
        assert_eq!(share(&["DDDSSS", "SSSDDD"]), 1.0);
        assert_eq!(blocked(&["DDDSSS", "SSSDDD"]).share(&BTreeSet::from([2])), 0.45);
    }

    #[test]
    fn pacing_oneself_differs_from_asking_without_pause() {
        let persistence = |states: &[&str]| blocked(states).persistence(&BTreeSet::from([1, 2]));
        assert_eq!(persistence(&["DDRDDD", "SSSSSS"]), Some(1.0), "who was never blocked does not count");
        assert_eq!(persistence(&["DSDSDS", "SDSDSD"]), Some(0.5));
        assert_eq!(persistence(&["SSSSSS", "RRRRRR"]), None);
    }
}
