//! Row and values of one thread, from its files.

use super::proc_dir::ProcDir;
use super::stat::Stat;
use super::thread_stats::{ProcessThreads, ThreadStats};
use super::{futex, pid_files};
use crate::os::ticks_to_ns;
use std::fs::File;
use whyslow_model::catalogue::Thread;
use whyslow_model::key::TaskKey;
use whyslow_model::value::{Gauge, State};

/// All threads of a process, sorted by key.
pub(super) fn read_all(
    dir: &mut ProcDir,
    pid: u32,
    before: &ProcessThreads,
    delays: bool,
) -> Vec<(Thread, ThreadStats)> {
    let threads = dir.threads(pid);
    let mut rows: Vec<_> = threads.into_iter().filter_map(|tid| read(dir, pid, tid, before, delays)).collect();
    rows.sort_by_key(|(row, _)| row.task);
    rows
}

/// `None` if it has ended.
fn read(dir: &mut ProcDir, pid: u32, tid: u32, before: &ProcessThreads, delays: bool) -> Option<(Thread, ThreadStats)> {
    dir.enter_thread(pid, tid);
    let (stat, command) = Stat::parse(dir.read("stat").ok()?)?;
    let mut row = Thread::new(TaskKey { pid, tid, start: stat.start });
    row.command = command.as_ref().into();
    row.state = stat.state().into();
    row.user = ticks_to_ns(stat.user).into();
    row.system = ticks_to_ns(stat.system).into();
    row.major_faults = stat.major_faults.into();
    row.processor = stat.processor.into();
    row.nice = Gauge::from(stat.nice as f64);
    let stats = stats(dir, &stat, before.get(&row.task), delays);
    row.run_delay = stats.run_delay.into();
    row.block_delay = stats.block_delay.into();
    row.voluntary_switches = stats.voluntary_switches.into();
    row.involuntary_switches = stats.involuntary_switches.into();
    row.migrations = stats.migrations.into();
    row.lock_wait = stats.waits_for_lock.map(u64::from).into();
    row.wait_channel = wait_channel(dir, stat.is_blocked());
    Some((row, stats))
}

/// The values of the thread whose directory is entered. What changes only as it runs is read again only if it may have run.
///
/// Whether it waits for a lock is not read for a thread that has not run since it was first seen: a pool may park thousands, and a
/// thread that never runs does not contend.
fn stats(dir: &mut ProcDir, stat: &Stat, before: Option<&ThreadStats>, delays: bool) -> ThreadStats {
    let mut stats = scheduled(dir, &mut None, stat, before, delays);
    let ran = before.map(|b| stats.may_have_run_since(b));
    if ran != Some(false) {
        if let Ok(text) = dir.read("status") {
            stats.put_switches(&pid_files::status(text));
        }
        stats.migrations = migrations(dir);
    }
    if ran == Some(true) {
        stats.waits_for_lock = waits_for_lock(dir, stat.is_asleep());
    }
    stats
}

/// How often the thread entered has migrated.
pub(super) fn migrations(dir: &mut ProcDir) -> Option<u64> {
    dir.read("sched").ok().and_then(pid_files::migrations)
}

/// Whether the thread entered sleeps waiting for a lock; `None` if we may not see that.
pub(super) fn waits_for_lock(dir: &mut ProcDir, is_asleep: bool) -> Option<bool> {
    if !is_asleep {
        return Some(false);
    }
    dir.read("syscall").ok().and_then(futex::waits_for_lock)
}

/// The scheduler's values of the thread whose directory is entered; the others as before.
pub(super) fn scheduled(
    dir: &mut ProcDir,
    schedstat: &mut Option<File>,
    stat: &Stat,
    before: Option<&ThreadStats>,
    delays: bool,
) -> ThreadStats {
    let sched = dir.read_open("schedstat", schedstat).ok().and_then(pid_files::schedstat);
    ThreadStats {
        run: sched.map(|s| s.run),
        run_delay: sched.map(|s| s.delay),
        // Without delay accounting the field exists and is 0.
        block_delay: stat.block_delay.filter(|_| delays).map(ticks_to_ns),
        swap_delay: None,
        reclaim_delay: None,
        voluntary_switches: before.and_then(|b| b.voluntary_switches),
        involuntary_switches: before.and_then(|b| b.involuntary_switches),
        migrations: before.and_then(|b| b.migrations),
        waits_for_lock: before.and_then(|b| b.waits_for_lock),
    }
}

/// The kernel function in which the task entered sleeps; absent unless it is blocked, or if the kernel hides it.
pub(super) fn wait_channel(dir: &mut ProcDir, is_blocked: bool) -> State {
    if !is_blocked {
        return State::default();
    }
    match dir.read("wchan") {
        Ok(b"" | b"0") | Err(_) => State::default(),
        Ok(name) => String::from_utf8_lossy(name.trim_ascii()).into_owned().into(),
    }
}
