//! One process from sample to sample.
//!
//! Its stat and schedstat are read every time. The rest stands still while it does not run, and is then taken from the
//! sample before: of a thousand processes few run in any one second.

use super::proc_dir::{Folder, Refusal};
use super::stat::Stat;
use super::thread::{self, counter, gauge};
use super::thread_stats::{Ledger, Tally};
use super::{cgroup, io, limits, status};
use crate::os::{page_size, ticks_to_ns};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Mutex, PoisonError};
use whyslow_model::catalogue::{Process, Thread};
use whyslow_model::key::TaskKey;
use whyslow_model::value::{Gauge, State};

/// In one sample of so many even a process that stood still is read in full: others can change its limits, its group
/// and, rarely, its files.
const FULL_EVERY: u64 = 10;

/// What holds for all processes of one sample.
pub(super) struct Round {
    /// The folders under /proc.
    pub(super) folder: Folder,
    /// The sample's number.
    pub(super) number: u64,
    /// Whether the kernel accounts delays by block I/O (kernel.task_delayacct).
    pub(super) delays: bool,
    /// How many more processes may have their files kept open.
    pub(super) keep_left: u64,
    /// How many more threads may be looked at.
    pub(super) threads_left: u64,
    /// Rows of the threads read so far.
    pub(super) threads: Vec<Thread>,
}

/// A process as it was read last.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Its row.
    pub(super) row: Process,
    /// Whether its I/O or open files were refused.
    pub(super) refused: bool,
    /// Whether its threads were too many to be read.
    pub(super) threads_unread: bool,
    ledger: Ledger,
    kept: Kept,
}

/// The files of a process that are read every time, left open.
#[derive(Debug, Default)]
struct Kept {
    stat: Option<File>,
    schedstat: Option<File>,
}

impl Known {
    /// Reads process `pid`, which was `before` at the last sample.
    ///
    /// # Errors
    /// `Gone` where it ended meanwhile; `Denied` where nothing of it may be seen.
    pub(super) fn read(round: &mut Round, pid: u32, mut before: Option<Self>) -> Result<Self, Refusal> {
        let kept = before.as_mut().map(|b| std::mem::take(&mut b.kept)).unwrap_or_default();
        let mut stat_file = kept.stat;
        round.folder.enter_process(pid);
        let line = round.folder.read_kept("stat", &mut stat_file)?;
        let (stat, command) = Stat::parse(line).ok_or_else(|| Refusal::Failed("cannot make sense of stat".into()))?;
        let key = TaskKey { pid, tid: pid, start: stat.start };
        let before = before.filter(|b| b.row.task == key);
        let full = before.is_none() || (round.number + u64::from(pid)).is_multiple_of(FULL_EVERY);
        let mut known = before.unwrap_or_else(|| Self { row: Process::new(key), ..Self::default() });
        known.kept = Kept { stat: stat_file, schedstat: kept.schedstat };

        let size = known.size();
        let total = known.ledger.total();
        known.put_stat(&stat, &command);
        let threads = known.read_threads(round, &stat);
        let may_have_run = stat.is_runnable() || known.ledger.total().may_have_run_since(&total);
        if full || may_have_run || known.size() != size {
            known.read_changing(&mut round.folder, &stat, full)?;
        }
        if full {
            known.read_settings(&mut round.folder, &stat);
        }
        known.row.wait_channel = thread::wait_channel(&mut round.folder, stat.is_blocked());
        known.put_total();
        round.threads.extend(threads);
        match round.keep_left.checked_sub(1) {
            Some(left) => round.keep_left = left,
            None => known.kept = Kept::default(),
        }
        Ok(known)
    }

    /// What others can change of a process that does not run: they reclaim its memory, they end its threads.
    fn size(&self) -> [Option<f64>; 3] {
        [self.row.rss.get(), self.row.virtual_size.get(), self.row.threads.get()]
    }

    fn put_stat(&mut self, stat: &Stat, command: &str) {
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

    /// Reads the figures kept per thread; the rows of the threads where there are several.
    fn read_threads(&mut self, round: &mut Round, stat: &Stat) -> Vec<Thread> {
        let key = self.row.task;
        self.threads_unread = false;
        if stat.threads <= 1 {
            let kept = &mut self.kept.schedstat;
            let tally = thread::scheduled(&mut round.folder, kept, stat, self.ledger.of(&key), round.delays);
            self.ledger.turn(vec![(key, tally)]);
            return Vec::new();
        }
        if stat.threads > round.threads_left {
            // A sum over some of the threads would be a false one.
            self.ledger = Ledger::default();
            self.threads_unread = true;
            return Vec::new();
        }
        round.threads_left -= stat.threads;
        let threads = thread::read_all(&mut round.folder, key.pid, &self.ledger, round.delays);
        round.folder.enter_process(key.pid);
        self.ledger.turn(threads.iter().map(|(row, tally)| (row.task, *tally)).collect());
        threads.into_iter().map(|(row, _)| row).collect()
    }

    /// Reads what changes as the process runs.
    fn read_changing(&mut self, folder: &mut Folder, stat: &Stat, full: bool) -> Result<(), Refusal> {
        // Every process has a status on every kernel: without it, the process has ended.
        let status = status::parse(folder.read("status")?);
        let row = &mut *self.row;
        row.user_id = gauge(status.user_id);
        row.rss_anon = gauge(status.rss_anon);
        row.rss_file = gauge(status.rss_file);
        row.rss_shmem = gauge(status.rss_shmem);
        row.swap = gauge(status.swap);
        if stat.threads <= 1 {
            let (task, moves) = (row.task, thread::migrations(folder));
            if let Some(tally) = self.ledger.of_mut(&task) {
                tally.put_switches(&status);
                tally.migrations = moves;
            }
        }
        self.refused = false;
        match folder.read("io") {
            Ok(text) => io::fill(row, text),
            Err(refusal) => self.refused |= refusal == Refusal::Denied,
        }
        // Kernel threads and the dead have no files; counting one by one is left to the full readings.
        if stat.is_kernel_thread() || stat.is_zombie() {
            row.open_files = Gauge::ABSENT;
        } else if full || folder.counts_files_cheaply() {
            match folder.open_files() {
                Ok(files) => row.open_files = files.into(),
                Err(refusal) => self.refused |= refusal == Refusal::Denied,
            }
        }
        // A process that has ended is closed to other users, and has nothing left to hide.
        self.refused &= !stat.is_zombie();
        Ok(())
    }

    /// Reads what hardly ever changes.
    fn read_settings(&mut self, folder: &mut Folder, stat: &Stat) {
        if let Ok(text) = folder.read("limits")
            && !stat.is_kernel_thread()
        {
            let limits = limits::parse(text);
            self.row.open_files_limit = gauge(limits.open_files);
            self.row.processes_limit = gauge(limits.processes);
        }
        if let Ok(text) = folder.read("cgroup") {
            renew(&mut self.row.cgroup, cgroup::paths(text).as_deref());
        }
    }

    fn put_total(&mut self) {
        let Tally { run_delay, block_delay, voluntary_switches, involuntary_switches, migrations, .. } =
            self.ledger.total();
        let row = &mut *self.row;
        row.run_delay = counter(run_delay);
        row.block_delay = counter(block_delay);
        row.voluntary_switches = counter(voluntary_switches);
        row.involuntary_switches = counter(involuntary_switches);
        row.migrations = counter(migrations);
    }
}

/// Sets `slot`, which holds the same words at nearly every sample, without a new allocation where it does.
pub(super) fn renew(slot: &mut State, words: Option<&str>) {
    if slot.get() != words {
        *slot = words.map_or_else(State::default, State::from);
    }
}

/// The same with words of which there are few: all rows that have them share them, so that a sample of thousands of
/// processes looks at one place in memory for them all.
pub(super) fn renew_shared(slot: &mut State, words: Option<&'static str>) {
    static SHARED: Mutex<BTreeMap<&str, State>> = Mutex::new(BTreeMap::new());
    if slot.get() != words {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = words.map_or_else(State::default, |words| shared.entry(words).or_insert_with(|| words.into()).clone());
    }
}
