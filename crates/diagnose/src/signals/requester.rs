//! Requests by the process that issued them, from BPF.

use super::task::TaskUse;
use crate::cgroup::in_group;
use crate::signal::ratio;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{PageCache, Request, Requester};
use whyslow_model::key::TaskKey;
use whyslow_model::topology::Topology;
use whyslow_model::value::Name;
use whyslow_model::window::Window;

/// A process' use of a device, per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequesterUse {
    /// Name of the process.
    pub command: String,
    /// Requests that it issued.
    pub requests: f64,
    /// Seconds that its requests waited in the queue.
    pub queue_time: f64,
    /// Seconds that the device took to serve them.
    pub device_time: f64,
    /// Seconds of the kernel's write-back of pages that this process dirtied.
    pub written_back: f64,
    /// Seconds of flushes: its own, and those of the kernel and the journal that it waited for.
    pub committed: f64,
    /// Whether it wrote to the device itself.
    writes: bool,
}

impl RequesterUse {
    /// Returns the mean number of requests in flight (Little's law).
    pub fn in_flight(&self) -> f64 {
        self.queue_time + self.device_time + self.written_back + self.committed
    }
}

/// If write-back to other devices takes no more than this share of the time, nearly all writes went to this one.
const LITTLE: f64 = 0.1;

/// Kernel threads that write the journal of ext4 and ocfs2 for the callers of fsync (fs/jbd2/journal.c).
const JOURNAL: &str = "jbd2/";

/// Returns the devices whose requests were traced.
pub fn devices(window: &Window) -> BTreeSet<Name> {
    window.newest::<Request>().into_keys().map(|key| key.device).collect()
}

/// Returns the use of each device by each process. Attributes the kernel's write-back, by bytes, to the processes whose files
/// were written back, or, if that was not traced, to those that wrote meanwhile. With write-back to several devices the latter
/// holds only for processes that use the device themselves; the rest stays unattributed. Attributes flushes and the journal,
/// which the kernel writes for the callers of fsync, to the processes found waiting for them.
pub fn made(window: &Window, topology: &Topology, tasks: &[TaskUse]) -> BTreeMap<(TaskKey, Name), RequesterUse> {
    let mut all: BTreeMap<(TaskKey, Name), RequesterUse> = BTreeMap::new();
    let mut written_back: BTreeMap<(Name, Name), f64> = BTreeMap::new();
    let mut committed: BTreeMap<Name, f64> = BTreeMap::new();
    let kernel: BTreeSet<TaskKey> = tasks.iter().filter(|t| t.kernel).map(|t| t.key).collect();
    for change in window.changes::<Requester>() {
        let key = change.key();
        let seconds = |of: Option<f64>| ratio(of).unwrap_or(0.0);
        let queue_time = seconds(change.rate(|r| r.queue_time));
        let device_time = seconds(change.rate(|r| r.device_time));
        let command = change.last().command.get().unwrap_or_default();
        let (is_write, is_flush) = (&*key.on.operation == "write", &*key.on.operation == "flush");
        let is_kernel = kernel.contains(&key.task);
        if is_kernel && (is_flush || is_write && command.starts_with(JOURNAL)) {
            *committed.entry(key.on.device.clone()).or_default() += queue_time + device_time;
        } else if is_kernel && is_write {
            let of = (key.on.device.clone(), key.cgroup.clone());
            *written_back.entry(of).or_default() += queue_time + device_time;
        }
        let made = all.entry((key.task, key.on.device.clone())).or_default();
        made.command = command.to_owned();
        made.writes |= is_write;
        made.requests += change.rate(|r| r.requests).unwrap_or(0.0);
        if is_flush && !is_kernel {
            made.committed += queue_time + device_time;
        } else {
            made.queue_time += queue_time;
            made.device_time += device_time;
        }
    }
    let owners = owners(window, tasks);
    let used: BTreeSet<(TaskKey, Name)> = all.keys().cloned().collect();
    let mut times: BTreeMap<Name, f64> = BTreeMap::new();
    for ((device, _), time) in &written_back {
        *times.entry(device.clone()).or_default() += time;
    }
    for ((device, cgroup), time) in written_back {
        let mut owners = members(&owners, &cgroup, tasks);
        let compares = |other: f64| times.get(&device).is_some_and(|own| other > LITTLE * own);
        if times.iter().any(|(other, time)| is_apart(other, &device, topology) && compares(*time)) {
            owners.retain(|task, _| used.contains(&(*task, device.clone())));
        }
        let bytes_of_all: f64 = owners.values().sum();
        for (task, bytes) in owners {
            let made = all.entry((task, device.clone())).or_default();
            made.written_back += time * bytes / bytes_of_all;
        }
    }
    for (device, time) in committed {
        let waiters = waiters(&device, &all, tasks, topology);
        let waited: f64 = waiters.iter().map(|task| task.flush_waiters).sum();
        for task in waiters {
            let made = all.entry((task.key, device.clone())).or_default();
            made.committed += time * task.flush_waiters / waited;
        }
    }
    all
}

/// Returns true if writes to one of these devices do not also reach the other.
fn is_apart(a: &Name, b: &Name, topology: &Topology) -> bool {
    a != b && !topology.rests_on(a, b) && !topology.rests_on(b, a)
}

/// Returns the processes that waited for flushes of a device. Their threads were found waiting for a flush of an unknown device,
/// but fsync(2) writes the caller's pages first. If none of them wrote to the device (sync(2) lets the kernel write), returns
/// those that wrote to no other.
fn waiters<'t>(
    device: &Name,
    made: &BTreeMap<(TaskKey, Name), RequesterUse>,
    tasks: &'t [TaskUse],
    topology: &Topology,
) -> Vec<&'t TaskUse> {
    let waited = || tasks.iter().filter(|t| !t.kernel && t.flush_waiters > 0.0);
    let wrote = |task: &TaskUse, is_it: &dyn Fn(&Name) -> bool| {
        made.iter().any(|((key, on), made)| *key == task.key && made.writes && is_it(on))
    };
    let own: Vec<&TaskUse> = waited().filter(|t| wrote(t, &|on| on == device)).collect();
    let wrote_elsewhere = |t: &&TaskUse| wrote(t, &|on| is_apart(on, device, topology));
    if own.is_empty() { waited().filter(|t| !wrote_elsewhere(t)).collect() } else { own }
}

/// Returns the processes whose bytes were written back, as far as is known, and the bytes per second.
fn owners(window: &Window, tasks: &[TaskUse]) -> BTreeMap<TaskKey, f64> {
    let some = |(task, bytes): (TaskKey, Option<f64>)| Some((task, bytes.filter(|bytes| *bytes > 0.0)?));
    let closer = window.changes::<PageCache>();
    let seen: BTreeMap<TaskKey, f64> =
        closer.iter().map(|c| (*c.key(), c.rate(|row| row.written_back))).filter_map(some).collect();
    if !seen.is_empty() {
        return seen;
    }
    tasks.iter().filter(|t| !t.kernel).map(|t| (t.key, t.written)).filter_map(some).collect()
}

/// Returns those of `owners` in the control group that the write-back was charged to; all of them if none is in it, as with
/// control groups of version 1, which charge it to the kernel (Documentation/admin-guide/cgroup-v2.rst: Writeback).
fn members(owners: &BTreeMap<TaskKey, f64>, cgroup: &str, tasks: &[TaskUse]) -> BTreeMap<TaskKey, f64> {
    let inside = |task: &TaskKey| {
        cgroup.len() > 1 && tasks.iter().any(|t| t.key == *task && in_group(t.cgroup.as_deref(), cgroup))
    };
    let members: BTreeMap<TaskKey, f64> =
        owners.iter().filter(|(task, _)| inside(task)).map(|(task, bytes)| (*task, *bytes)).collect();
    if members.is_empty() { owners.clone() } else { members }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SECOND, window};
    use whyslow_model::key::{OperationKey, RequesterKey};

    fn key(pid: u32) -> TaskKey {
        TaskKey { pid, tid: pid, start: 1 }
    }

    fn row(t: u64, pid: u32, operation: &str, busy: u64) -> Requester {
        let on = OperationKey { device: "sda".into(), operation: operation.into() };
        Requester {
            requests: (t * 10).into(),
            queue_time: (t * SECOND * busy / 100).into(),
            device_time: (t * SECOND * busy / 100).into(),
            ..Requester::new(RequesterKey { on, task: key(pid), cgroup: Name::default() })
        }
    }

    fn in_flight(written_back: &[(u32, u64)]) -> [f64; 4] {
        let window = window(1..3, |t, s| {
            s.block.requester.extend([row(t, 20, "read", 25), row(t, 9, "write", 40)]);
            let closer =
                |(pid, bytes): &(u32, u64)| PageCache { written_back: (t * bytes).into(), ..PageCache::new(key(*pid)) };
            s.block.page_cache.extend(written_back.iter().map(closer));
        });
        let task = |pid, kernel, written| TaskUse { key: key(pid), kernel, written, ..TaskUse::default() };
        let tasks = [task(9, true, Some(5.0)), task(30, false, Some(300.0)), task(31, false, Some(100.0))];
        let made = made(&window, &Topology::default(), &tasks);
        [20, 9, 30, 31].map(|pid| (made[&(key(pid), Name::from("sda"))].in_flight() * 100.0).round())
    }

    #[test]
    fn write_back_is_charged_to_those_who_wrote() {
        assert_eq!(in_flight(&[]), [50.0, 80.0, 60.0, 20.0]);
    }

    #[test]
    fn a_closer_look_knows_whose_files_were_written_back() {
        assert_eq!(in_flight(&[(30, 100), (31, 300), (20, 0)]), [50.0, 80.0, 20.0, 60.0]);
    }

    /// Returns the uses of a device that is flushed all the time, half of it by its journal's writes. The processes were found
    /// blocked, and waiting for flushes, for these shares of the time. 30 writes to it, 31 reads, and 33 writes to another
    /// device.
    fn committed<const N: usize>(waiting: [(u32, f64, f64); N]) -> BTreeMap<(TaskKey, Name), RequesterUse> {
        let window = window(1..3, |t, s| {
            let mut elsewhere = row(t, 33, "write", 5);
            elsewhere.user.on.device = "sdb".into();
            let journal = Requester { command: "jbd2/sda1-8".into(), ..row(t, 9, "write", 10) };
            s.block.requester.extend([
                journal,
                elsewhere,
                row(t, 10, "flush", 40),
                row(t, 30, "write", 5),
                row(t, 31, "read", 5),
            ]);
        });
        let task = |pid, blocked, flush_waiters| TaskUse {
            key: key(pid),
            kernel: pid < 20,
            blocked,
            flush_waiters,
            written: Some(1e6),
            ..TaskUse::default()
        };
        made(&window, &Topology::default(), &waiting.map(|(pid, b, w)| task(pid, b, w)))
    }

    #[test]
    fn flushes_and_the_journal_are_charged_to_those_found_waiting_for_them() {
        // Two kernel threads; a process that flushes; three that only sleep, write or read; one that flushes another device.
        let made =
            committed([(9, 0.0, 0.0), (10, 0.0, 0.0), (30, 0.5, 0.5), (31, 0.9, 0.0), (32, 1.0, 0.0), (33, 1.0, 1.0)]);
        let in_flight = |pid| made.get(&(key(pid), Name::from("sda"))).map(|m| (m.in_flight() * 100.0).round());
        assert_eq!([30, 31, 32, 33].map(in_flight), [Some(110.0), Some(10.0), None, None]);
    }

    #[test]
    fn flushes_that_no_process_was_found_waiting_for_are_nobodys() {
        let made = committed([(9, 0.0, 0.0), (10, 0.0, 0.0), (30, 0.5, 0.0), (31, 0.9, 0.0)]);
        assert!(made.iter().all(|((_, _), made)| made.committed == 0.0), "{made:?}");
    }

    #[test]
    fn flushes_of_a_device_that_the_kernel_alone_writes_to_are_those_of_the_callers_of_sync() {
        let made = committed([(9, 0.0, 0.0), (10, 0.0, 0.0), (32, 0.2, 0.2), (33, 1.0, 1.0)]);
        let charged = |pid| made.get(&(key(pid), Name::from("sda"))).map(|m| (m.committed * 100.0).round());
        assert_eq!([30, 32, 33].map(charged), [Some(0.0), Some(100.0), None], "33 writes to another device");
    }

    #[test]
    fn write_back_to_several_devices_is_charged_to_those_that_use_each_themselves() {
        let window = window(1..3, |t, s| {
            let mut other = row(t, 9, "write", 40);
            other.user.on.device = "sdb".into();
            s.block.requester.extend([row(t, 9, "write", 40), other, row(t, 30, "read", 5)]);
        });
        let task = |pid, kernel| TaskUse { key: key(pid), kernel, written: Some(1e6), ..TaskUse::default() };
        let tasks = [task(9, true), task(30, false), task(31, false)];
        let made = made(&window, &Topology::default(), &tasks);
        let in_flight =
            |pid, device: &str| made.get(&(key(pid), Name::from(device))).map(|m| (m.in_flight() * 100.0).round());
        assert_eq!(in_flight(30, "sda"), Some(90.0), "its own, and all that was written back");
        assert_eq!([(30, "sdb"), (31, "sda"), (31, "sdb")].map(|(pid, device)| in_flight(pid, device)), [None; 3]);
    }

    #[test]
    fn a_little_write_back_elsewhere_leaves_the_writer_of_nearly_all() {
        let window = window(1..3, |t, s| {
            let mut other = row(t, 9, "write", 4);
            other.user.on.device = "sdb".into();
            s.block.requester.extend([row(t, 9, "write", 80), other]);
        });
        let task =
            |pid, kernel, written| TaskUse { key: key(pid), kernel, written: Some(written), ..TaskUse::default() };
        let tasks = [task(9, true, 0.0), task(30, false, 1e6)];
        let made = made(&window, &Topology::default(), &tasks);
        let is_charged = |device: &str| made.contains_key(&(key(30), Name::from(device)));
        assert_eq!([is_charged("sda"), is_charged("sdb")], [true, false]);
    }

    #[test]
    fn write_back_charged_to_a_group_is_its_members() {
        assert_eq!(
            ["/logs", "/elsewhere", "/", ""].map(members_of),
            [vec![31], vec![30, 31], vec![30, 31], vec![30, 31]]
        );
    }

    fn members_of(group: &str) -> Vec<u32> {
        let task = |pid, cgroup: &str| TaskUse { key: key(pid), cgroup: Some(cgroup.into()), ..TaskUse::default() };
        let owners = BTreeMap::from([(key(30), 1.0), (key(31), 2.0)]);
        members(&owners, group, &[task(30, "/db"), task(31, "/logs/daily")]).into_keys().map(|k| k.pid).collect()
    }
}
