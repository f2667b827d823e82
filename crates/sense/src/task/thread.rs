//! One thread's row and figures.

use super::proc_dir::Folder;
use super::stat::Stat;
use super::status;
use super::thread_stats::{Ledger, Tally};
use super::{futex, sched, schedstat};
use crate::os::ticks_to_ns;
use std::fs::File;
use whyslow_model::catalogue::Thread;
use whyslow_model::key::TaskKey;
use whyslow_model::value::{Counter, Gauge, State};

/// Reads all threads of a process, in order of key.
pub(super) fn read_all(folder: &mut Folder, pid: u32, before: &Ledger, delays: bool) -> Vec<(Thread, Tally)> {
    let threads = folder.threads(pid);
    let mut rows: Vec<_> = threads.into_iter().filter_map(|tid| read(folder, pid, tid, before, delays)).collect();
    rows.sort_by_key(|(row, _)| row.task);
    rows
}

/// Reads one thread; `None` where it has ended.
fn read(folder: &mut Folder, pid: u32, tid: u32, before: &Ledger, delays: bool) -> Option<(Thread, Tally)> {
    folder.enter_thread(pid, tid);
    let (stat, command) = Stat::parse(folder.read("stat").ok()?)?;
    let mut row = Thread::new(TaskKey { pid, tid, start: stat.start });
    row.command = command.as_ref().into();
    row.state = stat.state().into();
    row.user = ticks_to_ns(stat.user).into();
    row.system = ticks_to_ns(stat.system).into();
    row.major_faults = stat.major_faults.into();
    row.processor = gauge(stat.processor);
    row.nice = Gauge::from(stat.nice as f64);
    let tally = tally(folder, &stat, before.of(&row.task), delays);
    row.run_delay = counter(tally.run_delay);
    row.block_delay = counter(tally.block_delay);
    row.voluntary_switches = counter(tally.voluntary_switches);
    row.involuntary_switches = counter(tally.involuntary_switches);
    row.migrations = counter(tally.migrations);
    row.lock_wait = gauge(tally.waits_for_lock.map(u64::from));
    row.wait_channel = wait_channel(folder, stat.is_blocked());
    Some((row, tally))
}

/// The figures of the thread whose folder is entered. What changes only as it runs is read again only where it may have
/// run.
///
/// Whether it waits for a lock is not asked of a thread that has not run since it was first seen: a pool may park
/// thousands, and who never gets on in all the time watched does not contend.
fn tally(folder: &mut Folder, stat: &Stat, before: Option<&Tally>, delays: bool) -> Tally {
    let mut tally = scheduled(folder, &mut None, stat, before, delays);
    let ran = before.map(|b| tally.may_have_run_since(b));
    if ran != Some(false) {
        if let Ok(text) = folder.read("status") {
            tally.put_switches(&status::parse(text));
        }
        tally.migrations = migrations(folder);
    }
    if ran == Some(true) {
        tally.waits_for_lock = waits_for_lock(folder, stat.is_asleep());
    }
    tally
}

/// How often the thread entered has moved to another processor; `None` where the kernel does not tell.
pub(super) fn migrations(folder: &mut Folder) -> Option<u64> {
    folder.read("sched").ok().and_then(sched::migrations)
}

/// Whether the thread entered sleeps for a lock; `None` where that may not be seen.
pub(super) fn waits_for_lock(folder: &mut Folder, is_asleep: bool) -> Option<bool> {
    if !is_asleep {
        return Some(false);
    }
    folder.read("syscall").ok().and_then(futex::waits_for_lock)
}

/// The figures of the thread whose folder is entered, the rest as it stood before.
pub(super) fn scheduled(
    folder: &mut Folder,
    kept: &mut Option<File>,
    stat: &Stat,
    before: Option<&Tally>,
    delays: bool,
) -> Tally {
    let sched = folder.read_kept("schedstat", kept).ok().and_then(schedstat::parse);
    Tally {
        run: sched.map(|s| s.run),
        run_delay: sched.map(|s| s.delay),
        // Without delay accounting the field is there all the same, and says 0.
        block_delay: stat.block_delay.filter(|_| delays).map(ticks_to_ns),
        swap_delay: None,
        reclaim_delay: None,
        voluntary_switches: before.and_then(|b| b.voluntary_switches),
        involuntary_switches: before.and_then(|b| b.involuntary_switches),
        migrations: before.and_then(|b| b.migrations),
        waits_for_lock: before.and_then(|b| b.waits_for_lock),
    }
}

/// The kernel function that the task entered sleeps in; absent unless it is blocked, and where the kernel hides it.
pub(super) fn wait_channel(folder: &mut Folder, is_blocked: bool) -> State {
    if !is_blocked {
        return State::default();
    }
    match folder.read("wchan") {
        Ok(b"" | b"0") | Err(_) => State::default(),
        Ok(name) => String::from_utf8_lossy(name.trim_ascii()).into_owned().into(),
    }
}

/// A counter that is absent where there is no reading.
pub(super) fn counter(reading: Option<u64>) -> Counter {
    reading.map_or(Counter::ABSENT, Counter::from)
}

/// A gauge that is absent where there is no reading.
pub(super) fn gauge(reading: Option<u64>) -> Gauge {
    reading.map_or(Gauge::ABSENT, Gauge::from)
}
