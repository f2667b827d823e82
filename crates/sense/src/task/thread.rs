//! Row and values of one thread, from its files.

use super::pid_files;
use super::proc_dir::ProcDir;
use super::stat::Stat;
use super::system_call::{self, SleepReason};
use super::thread_stats::{ProcessThreads, ThreadStats};
use crate::os::ticks_to_ns;
use std::fs::File;
use whyslow_model::catalogue::Thread;
use whyslow_model::key::TaskKey;
use whyslow_model::value::{Gauge, State};

/// Reads all threads of a process, sorted by key.
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

/// Reads a thread. Returns `None` if it has ended.
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
    row.lock_wait = lock_wait(stats.sleep);
    row.wait_channel = wait_channel(dir, stat.state(), stats.sleep);
    Some((row, stats))
}

/// Reads the values of the thread whose directory is entered. Values that change only as it runs are read again only if it may
/// have run.
///
/// The wait reason of a thread that has not run since it was first seen is not read: a pool may park thousands, and a thread that
/// never runs does not contend.
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
        stats.sleep = sleep_reason(dir, stat.is_asleep());
    }
    stats
}

/// Returns the number of migrations of the entered thread.
pub(super) fn migrations(dir: &mut ProcDir) -> Option<u64> {
    dir.read("sched").ok().and_then(pid_files::migrations)
}

/// Returns the reason why the entered thread sleeps; `None` if it may not be read.
pub(super) fn sleep_reason(dir: &mut ProcDir, is_asleep: bool) -> Option<SleepReason> {
    if !is_asleep {
        return Some(SleepReason::Other);
    }
    dir.read("syscall").ok().and_then(system_call::sleep_reason)
}

pub(super) fn lock_wait(sleep: Option<SleepReason>) -> Gauge {
    sleep.map(|reason| u64::from(reason == SleepReason::Lock)).into()
}

/// Reads the scheduler's values of the thread whose directory is entered; keeps the others as before.
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
        // Without delay accounting the field exists but is 0.
        block_delay: stat.block_delay.filter(|_| delays).map(ticks_to_ns),
        swap_delay: None,
        reclaim_delay: None,
        voluntary_switches: before.and_then(|b| b.voluntary_switches),
        involuntary_switches: before.and_then(|b| b.involuntary_switches),
        migrations: before.and_then(|b| b.migrations),
        sleep: before.and_then(|b| b.sleep),
    }
}

/// Returns the place where the entered task waits for a disk or the like: for a blocked task the kernel function, absent if it is
/// not visible; for one that waits for asynchronous I/O the system call. Absent for all others.
pub(super) fn wait_channel(dir: &mut ProcDir, state: &str, sleep: Option<SleepReason>) -> State {
    match (state, sleep) {
        ("D", _) => blocked_in(dir).into(),
        ("S", Some(SleepReason::AsyncIo(call))) => call.into(),
        _ => State::default(),
    }
}

/// Returns the kernel function that the entered task is blocked in. On x86 kernels before 5.16 that unwind stacks with ORC, such
/// as Debian 11's, wchan is empty; the function is then at the top of the stack, which root may read.
fn blocked_in(dir: &mut ProcDir) -> Option<String> {
    match dir.read("wchan") {
        Ok(b"" | b"0") | Err(_) => top_of_stack(dir.read("stack").ok()?),
        Ok(name) => Some(String::from_utf8_lossy(name.trim_ascii()).into_owned()),
    }
}

/// Parses `[<0>] nfs_wait_bit_killable+0x1e/0x90 [nfs]`. The stack contains no scheduler functions (fs/proc/base.c,
/// proc_pid_stack).
fn top_of_stack(stack: &[u8]) -> Option<String> {
    let line = stack.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let (function, _) = line.split_once("] ")?.1.split_once('+')?;
    Some(function.to_owned())
}
