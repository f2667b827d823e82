//! One process, read from its files.
//!
//! Its stat and schedstat are read at every sample. The rest hardly changes while the process does not run and is then reused: of
//! a thousand processes few run in any one second.

use super::proc_dir::{FileError, ProcDir};
use super::record::Used;
use super::stat::Stat;
use super::thread;
use super::thread_stats::{ProcessThreads, ThreadStats};
use super::{cputime, pid_files};
use crate::os::{page_size, ticks_to_ns};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Mutex, PoisonError};
use whyslow_model::catalogue::{Process, ProcessRow, Thread};
use whyslow_model::key::TaskKey;
use whyslow_model::value::{Gauge, State};

/// One sample in ten reads a process in full even if it did not run: other processes can change its limits, its cgroup and,
/// rarely, its files.
const FULL_EVERY: u64 = 10;

/// State shared by all processes of one sample.
pub(super) struct ProcSample {
    pub(super) dir: ProcDir,
    pub(super) number: u64,
    /// Value of kernel.task_delayacct.
    pub(super) delays: bool,
    /// Number of further processes that may keep their files open.
    pub(super) open_left: u64,
    /// Number of further threads that may be read.
    pub(super) threads_left: u64,
    /// Thread rows so far.
    pub(super) threads: Vec<Thread>,
}

/// A process as of the last sample.
#[derive(Debug, Default)]
pub(super) struct ProcProcess {
    pub(super) row: Process,
    /// Whether its I/O or open files were refused.
    pub(super) refused: bool,
    /// Whether it had too many threads.
    pub(super) threads_unread: bool,
    threads: ProcessThreads,
    open: ProcessFiles,
}

/// The files of a process that are read at every sample.
#[derive(Debug, Default)]
struct ProcessFiles {
    stat: Option<File>,
    schedstat: Option<File>,
}

impl ProcProcess {
    /// Reads process `pid`; `before` is its state at the last sample. Fails with `Denied` if nothing of it may be read.
    pub(super) fn read(sample: &mut ProcSample, pid: u32, mut before: Option<Self>) -> Result<Self, FileError> {
        let open = before.as_mut().map(|b| std::mem::take(&mut b.open)).unwrap_or_default();
        let mut stat_file = open.stat;
        sample.dir.enter_process(pid);
        let line = sample.dir.read_open("stat", &mut stat_file)?;
        let (stat, command) = Stat::parse(line).ok_or_else(|| FileError::Failed("malformed stat".into()))?;
        let key = TaskKey { pid, tid: pid, start: stat.start };
        let before = before.filter(|b| b.row.task == key);
        let is_known = before.is_some();
        let full = !is_known || (sample.number + u64::from(pid)).is_multiple_of(FULL_EVERY);
        let mut process = before.unwrap_or_else(|| Self { row: Process::new(key), ..Self::default() });
        process.open = ProcessFiles { stat: stat_file, schedstat: open.schedstat };

        let size = process.size();
        let total = process.threads.total();
        process.add_stat(&stat, &command);
        let threads = process.read_threads(sample, &stat);
        let may_have_run = stat.is_runnable() || process.threads.total().may_have_run_since(&total);
        let moved = storage_bytes(&process.row);
        if full || may_have_run || process.size() != size {
            process.read_changing(&mut sample.dir, &stat, full)?;
        }
        if full {
            process.read_settings(&mut sample.dir, &stat);
        }
        let did_io = is_known && storage_bytes(&process.row) != moved;
        process.put_sleep(&mut sample.dir, &stat, may_have_run.then_some(did_io));
        process.add_totals();
        sample.threads.extend(threads);
        match sample.open_left.checked_sub(1) {
            Some(left) => sample.open_left = left,
            None => process.open = ProcessFiles::default(),
        }
        Ok(process)
    }

    /// Returns the values that other processes can change while this one does not run: they reclaim its memory and end its
    /// threads.
    fn size(&self) -> [Option<f64>; 3] {
        [self.row.rss.get(), self.row.virtual_size.get(), self.row.threads.get()]
    }

    fn add_stat(&mut self, stat: &Stat, command: &str) {
        let row = &mut *self.row;
        renew(&mut row.command, Some(command));
        renew_shared(&mut row.state, Some(stat.state()));
        renew_shared(&mut row.policy, stat.policy());
        row.parent = stat.parent.into();
        row.user = ticks_to_ns(stat.user).into();
        row.system = ticks_to_ns(stat.system).into();
        row.children_user = ticks_to_ns(stat.children_user).into();
        row.children_system = ticks_to_ns(stat.children_system).into();
        row.minor_faults = stat.minor_faults.into();
        row.major_faults = stat.major_faults.into();
        row.threads = stat.threads.into();
        row.nice = Gauge::from(stat.nice as f64);
        row.rss = stat.rss_pages.saturating_mul(page_size()).into();
        row.virtual_size = stat.virtual_size.into();
        row.kernel_thread = u64::from(stat.is_kernel_thread()).into();
    }

    /// Reads the values that are kept per thread. Returns the rows of the threads if there are several.
    fn read_threads(&mut self, sample: &mut ProcSample, stat: &Stat) -> Vec<Thread> {
        let key = self.row.task;
        self.threads_unread = false;
        if stat.threads <= 1 {
            let schedstat = &mut self.open.schedstat;
            let stats = thread::scheduled(&mut sample.dir, schedstat, stat, self.threads.get(&key), sample.delays);
            self.threads.update(vec![(key, stats)]);
            return Vec::new();
        }
        if stat.threads > sample.threads_left {
            // A sum over some of the threads would be wrong.
            self.threads = ProcessThreads::default();
            self.threads_unread = true;
            return Vec::new();
        }
        sample.threads_left -= stat.threads;
        let threads = thread::read_all(&mut sample.dir, key.pid, &self.threads, sample.delays);
        sample.dir.enter_process(key.pid);
        self.threads.update(threads.iter().map(|(row, stats)| (row.task, *stats)).collect());
        threads.into_iter().map(|(row, _)| row).collect()
    }

    /// Reads where the main thread waits. Reading the system call costs a file access, and is useful only if the process can wait
    /// for storage: if it `did_io`, which is `None` if it has not run since the last sample.
    fn put_sleep(&mut self, dir: &mut ProcDir, stat: &Stat, did_io: Option<bool>) {
        let mut main = self.threads.get_mut(&self.row.task);
        if let (Some(main), Some(did_io), true) = (&mut main, did_io, stat.threads <= 1) {
            main.sleep = if did_io { thread::sleep_reason(dir, stat.is_asleep()) } else { None };
        }
        self.row.wait_channel = thread::wait_channel(dir, stat.state(), main.and_then(|main| main.sleep));
    }

    /// Reads the values that change as the process runs.
    fn read_changing(&mut self, dir: &mut ProcDir, stat: &Stat, full: bool) -> Result<(), FileError> {
        // If status is missing, the process has ended.
        let status = pid_files::status(dir.read("status")?);
        let row = &mut *self.row;
        row.user_id = status.user_id.into();
        row.rss_anon = status.rss_anon.into();
        row.rss_file = status.rss_file.into();
        row.rss_shmem = status.rss_shmem.into();
        row.swap = status.swap.into();
        row.page_tables = status.page_tables.into();
        if stat.threads <= 1 {
            let (task, moves) = (row.task, thread::migrations(dir));
            if let Some(stats) = self.threads.get_mut(&task) {
                stats.put_switches(&status);
                stats.migrations = moves;
            }
        }
        self.refused = false;
        match dir.read("io") {
            Ok(text) => pid_files::io(text, row),
            Err(error) => self.refused |= error == FileError::Denied,
        }
        // Kernel threads and zombies have no files. Counting files one by one is left to the full samples.
        if stat.is_kernel_thread() || stat.is_zombie() {
            row.open_files = Gauge::ABSENT;
        } else if full || dir.counts_files_by_size() {
            match dir.open_files() {
                Ok(files) => row.open_files = files.into(),
                Err(error) => self.refused |= error == FileError::Denied,
            }
        }
        // Other users may not read a zombie, but it has nothing left to read.
        self.refused &= !stat.is_zombie();
        Ok(())
    }

    /// Reads the values that hardly ever change.
    fn read_settings(&mut self, dir: &mut ProcDir, stat: &Stat) {
        if let Ok(text) = dir.read("limits")
            && !stat.is_kernel_thread()
        {
            let limits = pid_files::limits(text);
            self.row.open_files_limit = limits.open_files.into();
            self.row.open_files_hard_limit = limits.open_files_hard.into();
            self.row.processes_limit = limits.processes.into();
        }
        if let Ok(text) = dir.read("cgroup") {
            renew(&mut self.row.cgroup, pid_files::cgroups(text).as_deref());
        }
    }

    fn add_totals(&mut self) {
        let ThreadStats { run_delay, block_delay, voluntary_switches, involuntary_switches, migrations, .. } =
            self.threads.total();
        let row = &mut *self.row;
        row.run_delay = run_delay.into();
        row.block_delay = block_delay.into();
        row.voluntary_switches = voluntary_switches.into();
        row.involuntary_switches = involuntary_switches.into();
        row.migrations = migrations.into();
    }
}

/// Sets the usage of all threads of a process, including ended ones.
pub(super) fn put_used(row: &mut ProcessRow, used: &Used) {
    let (user, system) = cputime::adjusted(&used.cpu, row.user.get(), row.system.get());
    row.user = user.into();
    row.system = system.into();
    row.minor_faults = used.minor_faults.into();
    row.major_faults = used.major_faults.into();
    row.voluntary_switches = used.voluntary_switches.into();
    row.involuntary_switches = used.involuntary_switches.into();
    row.read_chars = used.io.read_chars.into();
    row.write_chars = used.io.write_chars.into();
    row.read_calls = used.io.read_calls.into();
    row.write_calls = used.io.write_calls.into();
    row.read_bytes = used.io.read_bytes.into();
    row.write_bytes = used.io.write_bytes.into();
    row.cancelled_write_bytes = used.io.cancelled_write_bytes.into();
}

/// Returns the bytes that a process has read from and written to storage: it can have waited for storage only if these have
/// grown.
pub(super) fn storage_bytes(row: &ProcessRow) -> [Option<u64>; 2] {
    [row.read_bytes.get(), row.write_bytes.get()]
}

/// Sets `slot`, which hardly ever changes, and allocates only if it does.
pub(super) fn renew(slot: &mut State, words: Option<&str>) {
    if slot.get() != words {
        *slot = words.into();
    }
}

/// Like [`renew`] for states with few distinct values: all rows share them, so that a sample of thousands of processes touches
/// one place in memory.
pub(super) fn renew_shared(slot: &mut State, words: Option<&'static str>) {
    static SHARED: Mutex<BTreeMap<&str, State>> = Mutex::new(BTreeMap::new());
    if slot.get() != words {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = words.map_or_else(State::default, |words| shared.entry(words).or_insert_with(|| words.into()).clone());
    }
}
