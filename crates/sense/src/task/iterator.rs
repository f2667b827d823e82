//! All processes and threads from a BPF iterator (Documentation/bpf/bpf_iterators.rst): one read replaces four files per thread
//! under /proc, at a fiftieth of the cost.
//!
//! The values are those of /proc, summed over threads as the kernel does (fs/proc/array.c, kernel/sched/cputime.c). Files are
//! read only for values that no structure contains: the kernel function in which a blocked task sleeps, the system call in which
//! a thread waits, and the names of cgroups and kernel workers. Memory lacks the per-CPU remainders: it is off by at most max(32,
//! 2 x CPUs) pages per CPU.

use super::cgroup_sets::CgroupSets;
use super::cputime;
use super::exits::{self, Exits};
use super::proc_dir::ProcDir;
use super::process::{put_used, renew, renew_shared, storage_bytes};
use super::record::{
    CpuTime, ExitRecord, Io, MemoryPages, ProcessRecord, RecordSpan, ThreadRecord, Used, known, spans as record_spans,
};
use super::records::{RecordPart, Records};
use super::stat::{KERNEL_THREAD, WORKER, policy};
use super::thread::{lock_wait, sleep_reason, wait_channel};
use super::thread_stats::{ProcessThreads, ThreadStats};
use crate::os::page_size;
use crate::root::Root;
use crate::source_error::SourceError;
use whyslow_model::catalogue::{Process, ProcessRow, Thread};
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Gauge, State};

/// One sample in ten reads names again: a kernel worker is named after its current work, and a set of cgroups is identified by
/// its address, which can be reused.
const NAMES_EVERY: u64 = 10;

pub(super) struct TaskIterator {
    pub(super) records: Records,
    /// Reused for its capacity.
    spans: Vec<RecordSpan>,
    samples: u64,
    /// Sorted by PID, the order in which they are read, for locality.
    tracked: Vec<TrackedProcess>,
    groups: CgroupSets,
    /// Recorded from the first sample on.
    exits: Result<Exits, SourceError>,
}

/// A process as of the last sample.
struct TrackedProcess {
    /// Copy of the row's PID. The row is elsewhere in memory, and most processes need only the PID.
    pid: u32,
    row: Process,
    thread_stats: ProcessThreads,
    /// The last sample it was seen in.
    seen: u64,
    /// The sample in which its name was read, and its run time at that moment.
    named: Option<(u64, u64)>,
}

/// State shared by all processes of one sample.
struct IteratorSample<'s> {
    number: u64,
    dir: ProcDir,
    groups: &'s mut CgroupSets,
    threads: &'s mut Vec<Thread>,
    processes: &'s mut Vec<Process>,
    /// Processes that no earlier sample saw.
    new: Vec<TrackedProcess>,
    /// Depth of the observer's pid namespace.
    level: u64,
}

impl IteratorSample<'_> {
    fn begin(&mut self) {
        self.threads.clear();
        self.processes.clear();
        self.new.clear();
    }

    /// Adds the records of several processes.
    fn take(&mut self, bytes: &[u8], spans: &mut Vec<RecordSpan>, tracked: &mut [TrackedProcess]) {
        // Sorts spans instead of records, because records are large.
        spans.clear();
        spans.extend(record_spans(bytes));
        spans.sort_unstable();
        let Some(first) = spans.first() else { return };
        let from = tracked.partition_point(|tracked| tracked.pid < first.pid);
        let mut tracked = tracked[from..].iter_mut().peekable();
        let mut family = Vec::new();
        for spans in spans.chunk_by(|a, b| a.pid == b.pid) {
            let pid = spans[0].pid;
            while tracked.next_if(|tracked| tracked.pid < pid).is_some() {}
            let tracked = tracked.next_if(|tracked| tracked.pid == pid);
            if spans[0].is_unchanged() {
                if let Some(tracked) = tracked {
                    tracked.seen = self.number;
                    self.processes.push(tracked.row.clone());
                }
                continue;
            }
            family.clear();
            family.extend(spans.iter().filter_map(|span| span.read(bytes)));
            // The main thread stays, as a zombie, until the last thread has ended. If it is missing, the process no longer
            // exists.
            let Some((main, process)) = family.iter().find_map(|(thread, p)| Some((thread, p.as_ref()?))) else {
                continue;
            };
            self.level = main.level;
            match tracked {
                Some(tracked) => tracked.or_new(main.key()).read(self, main, process, &family),
                None => {
                    let mut tracked = TrackedProcess::new(main.key());
                    tracked.read(self, main, process, &family);
                    self.new.push(tracked);
                }
            }
        }
    }
}

impl TaskIterator {
    pub(super) fn load(root: &Root) -> Result<Self, SourceError> {
        Ok(Self {
            records: Records::load(root)?,
            spans: Vec::new(),
            samples: 0,
            tracked: Vec::new(),
            groups: CgroupSets::default(),
            exits: Exits::load(root),
        })
    }

    pub(super) fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let number = self.samples + 1;
        if number.is_multiple_of(NAMES_EVERY) {
            self.groups.forget();
        }
        let tables = &mut *out.task;
        tables.process.reserve(self.tracked.len());
        let mut sample = IteratorSample {
            number,
            dir: ProcDir::new(root),
            groups: &mut self.groups,
            threads: &mut tables.thread,
            processes: &mut tables.process,
            new: Vec::new(),
            level: 0,
        };
        self.records.read(|part| match part {
            RecordPart::Beginning => sample.begin(),
            RecordPart::Records(bytes) => sample.take(bytes, &mut self.spans, &mut self.tracked),
        })?;
        let (level, mut new) = (sample.level, sample.new);
        self.samples = number;
        let gone: Vec<TrackedProcess> = self.tracked.extract_if(.., |tracked| tracked.seen != number).collect();
        if !new.is_empty() {
            if self.tracked.is_empty() {
                self.tracked = new;
            } else {
                self.tracked.append(&mut new);
            }
            self.tracked.sort_by_key(|tracked| tracked.pid);
        }
        if self.samples > 1 {
            self.put_ended(&gone, out);
        }
        self.watch_exits(level)
    }

    /// Adds rows of processes that ended since the last sample. They are read after the others: a process that ended in between
    /// still has its row there, possibly as a zombie.
    fn put_ended(&mut self, gone: &[TrackedProcess], out: &mut Snapshot) {
        let Ok(exits) = &mut self.exits else { return };
        let mut unseen = Vec::new();
        for exit in exits.take(|exit| find_ended(gone, exit).is_some()) {
            if find_ended(&self.tracked, &exit).is_some() {
                continue;
            }
            match find_ended(gone, &exit) {
                Some(tracked) => out.task.process.push(exits::last_row(&tracked.row, &exit)),
                None => unseen.push(exit),
            }
        }
        out.task.exited_children = exits::exited_children(&unseen, exits.pending_parents());
    }

    /// Starts recording process exits after the first sample. Fails if that is not possible, or if records were lost.
    fn watch_exits(&mut self, level: u64) -> Result<(), SourceError> {
        let exits = self.exits.as_mut().map_err(|miss| miss.clone())?;
        if self.samples == 1
            && let Err(miss) = exits.begin(level)
        {
            self.exits = Err(miss.clone());
            return Err(miss);
        }
        match exits.lost()? {
            0 => Ok(()),
            lost => Err(SourceError::Failed(format!("{lost} processes ended too fast to be recorded"))),
        }
    }
}

/// Builds rows from records in BPF's format.
#[cfg(test)]
pub(crate) fn read_records(bytes: &[u8]) -> Snapshot {
    let (mut out, mut groups) = (Snapshot::default(), CgroupSets::default());
    let tables = &mut *out.task;
    let mut sample = IteratorSample {
        number: 1,
        dir: ProcDir::new(&Root::captured("/nowhere")),
        groups: &mut groups,
        threads: &mut tables.thread,
        processes: &mut tables.process,
        new: Vec::new(),
        level: 0,
    };
    sample.take(bytes, &mut Vec::new(), &mut []);
    out
}

/// The threads of a process; the main thread also has the record of the process.
type ThreadRecords = [(ThreadRecord, Option<ProcessRecord>)];

impl TrackedProcess {
    fn new(key: TaskKey) -> Self {
        Self { pid: key.pid, row: Process::new(key), thread_stats: ProcessThreads::default(), seen: 0, named: None }
    }

    /// Returns this process, or starts over if its PID now belongs to another one.
    fn or_new(&mut self, key: TaskKey) -> &mut Self {
        if self.row.task != key {
            *self = Self::new(key);
        }
        self
    }

    fn read(
        &mut self,
        sample: &mut IteratorSample<'_>,
        main: &ThreadRecord,
        process: &ProcessRecord,
        family: &ThreadRecords,
    ) {
        sample.dir.enter_process(self.pid);
        self.put_names(sample, main, process);
        self.put_process(main, process, &mut sample.dir);
        let moved = storage_bytes(&self.row);
        self.put_used(process, family);
        let did_io = storage_bytes(&self.row) != moved;
        self.put_threads(sample, process, family, did_io);
        self.seen = sample.number;
        sample.processes.push(self.row.clone());
    }

    fn put_names(&mut self, sample: &mut IteratorSample<'_>, main: &ThreadRecord, process: &ProcessRecord) {
        let ran = main.used.cpu.runtime;
        let name_due = self.named.is_none_or(|(number, until_then)| {
            main.flags & WORKER != 0 && number + NAMES_EVERY <= sample.number && ran != until_then
        });
        let row = &mut *self.row;
        if !is_kernel_thread(main) {
            renew(&mut row.command, Some(&String::from_utf8_lossy(main.name())));
        } else if name_due && let Ok(name) = sample.dir.read("comm") {
            self.named = Some((sample.number, ran));
            renew(&mut row.command, Some(&String::from_utf8_lossy(name.trim_ascii_end())));
        }
        row.cgroup = sample.groups.names(process.groups, sample.number, &mut sample.dir);
        renew_shared(&mut row.state, Some(main.state()));
        renew_shared(&mut row.policy, policy(main.policy));
    }

    fn put_process(&mut self, main: &ThreadRecord, process: &ProcessRecord, dir: &mut ProcDir) {
        let row = &mut *self.row;
        row.parent = process.parent.into();
        row.threads = process.threads.into();
        row.nice = main.nice().into();
        row.user_id = process.user_id.into();
        row.children_user = process.children_user.into();
        row.children_system = process.children_system.into();
        row.kernel_thread = u64::from(is_kernel_thread(main)).into();
        put_memory(row, process.memory());
        row.open_files = Gauge::ABSENT;
        row.open_files_limit = Gauge::ABSENT;
        row.open_files_hard_limit = Gauge::ABSENT;
        row.processes_limit = Gauge::ABSENT;
        if !is_kernel_thread(main) {
            // RLIM_INFINITY is all ones, too.
            row.open_files_limit = known(process.open_files_limit).into();
            row.open_files_hard_limit = known(process.open_files_hard_limit).into();
            row.processes_limit = known(process.processes_limit).into();
            if main.state() != "Z" {
                // The program does not count a large table; the size of the directory gives the count.
                let files = known(process.open_files).or_else(|| dir.open_files().ok());
                row.open_files = files.into();
            }
        }
    }

    /// Adds the usage of all threads, including ended ones.
    fn put_used(&mut self, process: &ProcessRecord, family: &ThreadRecords) {
        let used = family.iter().fold(process.ended, |sum, (thread, _)| add(sum, thread.used));
        put_used(&mut self.row, &used);
    }

    /// Adds rows of the threads if there are several, and sums of the counters that the kernel does not keep for ended threads.
    /// Reading a thread's wait reason costs a file access, and is useful only if the thread can wait for other threads or for
    /// storage.
    fn put_threads(
        &mut self,
        sample: &mut IteratorSample<'_>,
        process: &ProcessRecord,
        family: &ThreadRecords,
        did_io: bool,
    ) {
        let several = process.threads > 1;
        let mut all = Vec::with_capacity(family.len());
        for (thread, _) in family {
            let key = thread.key();
            let mut stats = stats(thread);
            let before = self.thread_stats.get(&key);
            sample.dir.enter_thread(key.pid, key.tid);
            stats.sleep = match before.map(|b| stats.may_have_run_since(b)) {
                Some(true) if several || did_io => sleep_reason(&mut sample.dir, thread.state() == "S"),
                Some(true) => None,
                _ => before.and_then(|b| b.sleep),
            };
            let channel = wait_channel(&mut sample.dir, thread.state(), stats.sleep);
            if key == self.row.task {
                self.row.wait_channel = channel.clone();
            }
            if several {
                sample.threads.push(row(thread, &stats, channel));
            }
            all.push((key, stats));
        }
        self.thread_stats.update(all);
        let total = self.thread_stats.total();
        let row = &mut *self.row;
        row.run_delay = total.run_delay.into();
        row.block_delay = total.block_delay.into();
        row.swap_delay = total.swap_delay.into();
        row.reclaim_delay = total.reclaim_delay.into();
        row.migrations = total.migrations.into();
    }
}

/// Finds the process of an exit record among those sorted by PID.
fn find_ended<'k>(tracked: &'k [TrackedProcess], exit: &ExitRecord) -> Option<&'k TrackedProcess> {
    let at = tracked.binary_search_by_key(&exit.pid, |tracked| tracked.pid.into()).ok()?;
    Some(&tracked[at]).filter(|tracked| tracked.row.task == exit.key())
}

fn is_kernel_thread(thread: &ThreadRecord) -> bool {
    thread.flags & KERNEL_THREAD != 0
}

/// Sets the memory metrics. Kernel threads and zombies have no memory: their size is 0, and the parts are absent.
fn put_memory(row: &mut ProcessRow, memory: Option<MemoryPages>) {
    // Counted per CPU and summed later, so a part can be negative for a while.
    let bytes = |pages: u64| ((pages as i64).max(0) as u64).saturating_mul(page_size());
    let part = |f: fn(&MemoryPages) -> u64| memory.as_ref().map_or(Gauge::ABSENT, |m| bytes(f(m)).into());
    row.rss_anon = part(|m| m.anon);
    row.rss_file = part(|m| m.file);
    row.rss_shmem = part(|m| m.shmem);
    row.swap = part(|m| m.swap);
    row.page_tables = memory.as_ref().map(|m| m.page_table_bytes).into();
    row.mappings = memory.as_ref().map(|m| m.mappings).into();
    let all = memory.unwrap_or_default();
    row.rss = [all.anon, all.file, all.shmem].map(bytes).into_iter().fold(0, u64::saturating_add).into();
    row.virtual_size = bytes(all.size).into();
}

fn stats(thread: &ThreadRecord) -> ThreadStats {
    ThreadStats {
        run: Some(thread.used.cpu.runtime),
        run_delay: known(thread.run_delay),
        block_delay: known(thread.block_delay),
        swap_delay: known(thread.swap_delay),
        reclaim_delay: known(thread.reclaim_delay),
        migrations: Some(thread.migrations),
        ..ThreadStats::default()
    }
}

fn row(thread: &ThreadRecord, stats: &ThreadStats, wait_channel: State) -> Thread {
    let mut row = Thread::new(thread.key());
    let (user, system) = cputime::adjusted(&thread.used.cpu, None, None);
    row.command = String::from_utf8_lossy(thread.name()).as_ref().into();
    row.state = thread.state().into();
    row.user = user.into();
    row.system = system.into();
    row.run_delay = stats.run_delay.into();
    row.block_delay = stats.block_delay.into();
    row.swap_delay = stats.swap_delay.into();
    row.reclaim_delay = stats.reclaim_delay.into();
    row.major_faults = thread.used.major_faults.into();
    row.voluntary_switches = thread.used.voluntary_switches.into();
    row.involuntary_switches = thread.used.involuntary_switches.into();
    row.migrations = stats.migrations.into();
    row.lock_wait = lock_wait(stats.sleep);
    row.processor = thread.processor.into();
    row.nice = thread.nice().into();
    row.wait_channel = wait_channel;
    row
}

fn add(a: Used, b: Used) -> Used {
    let cpu = CpuTime {
        user: a.cpu.user.saturating_add(b.cpu.user),
        system: a.cpu.system.saturating_add(b.cpu.system),
        runtime: a.cpu.runtime.saturating_add(b.cpu.runtime),
        ..a.cpu
    };
    Used {
        cpu,
        minor_faults: a.minor_faults.saturating_add(b.minor_faults),
        major_faults: a.major_faults.saturating_add(b.major_faults),
        voluntary_switches: a.voluntary_switches.saturating_add(b.voluntary_switches),
        involuntary_switches: a.involuntary_switches.saturating_add(b.involuntary_switches),
        io: Io {
            read_chars: a.io.read_chars.saturating_add(b.io.read_chars),
            write_chars: a.io.write_chars.saturating_add(b.io.write_chars),
            read_calls: a.io.read_calls.saturating_add(b.io.read_calls),
            write_calls: a.io.write_calls.saturating_add(b.io.write_calls),
            read_bytes: a.io.read_bytes.saturating_add(b.io.read_bytes),
            write_bytes: a.io.write_bytes.saturating_add(b.io.write_bytes),
            cancelled_write_bytes: a.io.cancelled_write_bytes.saturating_add(b.io.cancelled_write_bytes),
        },
    }
}
