//! All processes and threads by a BPF iterator (Documentation/bpf/bpf_iterators.rst): one read for what takes four files
//! a thread under /proc, at a fiftieth of the cost.
//!
//! The figures are those of /proc, put together from threads as the kernel does (fs/proc/array.c, kernel/sched/cputime.c).
//! Files are read only for what stands in no structure: where a stuck task sleeps, for what one waits in futex(2), and the
//! names of control groups and of the kernel's own workers. Memory is as exact as the kernel keeps it without adding up
//! every processor's remainder: off by at most max(32, 2 x processors) pages for each of them.

use super::exits::{self, Exits};
use super::proc_dir::ProcDir;
use super::process::{renew, renew_shared};
use super::record::{CpuTime, ExitRecord, Io, Pages, Place, Places, ProcessRecord, ThreadRecord, Used};
use super::records::{Part, Records};
use super::stat::{KERNEL_THREAD, WORKER, policy};
use super::thread::{wait_channel, waits_for_lock};
use super::thread_stats::{ProcessThreads, ThreadStats};
use super::{cputime, pid_files};
use crate::os::page_size;
use crate::root::Root;
use crate::source::SourceError;
use std::collections::HashMap;
use whyslow_model::catalogue::{Process, ProcessRow, Thread};
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Gauge, State};

/// In one sample of so many the names are read anew: a worker of the kernel is named after what it works on or did last, and
/// a set of control groups is told by its address, which another can get when it has gone.
const NAMES_EVERY: u64 = 10;

/// Reads every process, and every thread of those that have several.
pub(super) struct TaskIterator {
    pub(super) records: Records,
    /// Where the records stand; kept for its room.
    places: Vec<Place>,
    samples: u64,
    /// By number, in which order they are read: what is looked at next lies beside what was looked at last.
    known: Vec<Known>,
    /// Control groups by set, as [`pid_files::cgroups`] writes them.
    groups: HashMap<(u64, u64), State>,
    /// The ends of processes, from the first sample on.
    exits: Result<Exits, SourceError>,
}

/// A process as it was at the last sample.
struct Known {
    /// As in the row, which lies elsewhere: of most processes no more than that is looked at.
    pid: u32,
    row: Process,
    thread_stats: ProcessThreads,
    /// The sample it was seen in last.
    seen: u64,
    /// The one in which it was asked for its name, and how long it had run by then.
    named: Option<(u64, u64)>,
}

/// What holds for all processes of one sample.
struct Round<'s> {
    sample: u64,
    folder: ProcDir,
    groups: &'s mut HashMap<(u64, u64), State>,
    threads: &'s mut Vec<Thread>,
    processes: &'s mut Vec<Process>,
    /// Those that no sample before has seen.
    new: Vec<Known>,
    /// Depth of our own pid namespace.
    level: u64,
}

impl Round<'_> {
    /// Nothing has been taken.
    fn begin(&mut self) {
        self.threads.clear();
        self.processes.clear();
        self.new.clear();
    }

    /// Takes the records of some processes.
    fn take(&mut self, bytes: &[u8], places: &mut Vec<Place>, known: &mut [Known]) {
        // Records are sorted by where they stand: they are large, and there are thousands.
        places.clear();
        places.extend(Places::new(bytes));
        places.sort_unstable();
        let Some(first) = places.first() else { return };
        let from = known.partition_point(|known| known.pid < first.pid);
        let mut known = known[from..].iter_mut().peekable();
        let mut family = Vec::new();
        for places in places.chunk_by(|a, b| a.pid == b.pid) {
            let pid = places[0].pid;
            while known.next_if(|known| known.pid < pid).is_some() {}
            let known = known.next_if(|known| known.pid == pid);
            if places[0].stands_still() {
                if let Some(known) = known {
                    known.seen = self.sample;
                    self.processes.push(known.row.clone());
                }
                continue;
            }
            family.clear();
            family.extend(places.iter().filter_map(|place| place.read(bytes)));
            // The main thread stays, as a zombie, until the last one has ended; without it the process has just gone.
            let Some((main, process)) = family.iter().find_map(|(thread, p)| Some((thread, p.as_ref()?))) else {
                continue;
            };
            self.level = main.level;
            match known {
                Some(known) => known.or_another(main.key()).read(self, main, process, &family),
                None => {
                    let mut known = Known::new(main.key());
                    known.read(self, main, process, &family);
                    self.new.push(known);
                }
            }
        }
    }
}

impl TaskIterator {
    /// Loads it.
    ///
    /// # Errors
    /// Why BPF cannot be used here.
    pub(super) fn load(root: &Root) -> Result<Self, SourceError> {
        Ok(Self {
            records: Records::load(root)?,
            places: Vec::new(),
            samples: 0,
            known: Vec::new(),
            groups: HashMap::new(),
            exits: Exits::load(root),
        })
    }

    /// Reads them all.
    ///
    /// # Errors
    /// The iterator cannot be run.
    pub(super) fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let sample = self.samples + 1;
        if sample.is_multiple_of(NAMES_EVERY) {
            self.groups.clear();
        }
        let tables = &mut out.task;
        tables.process.reserve(self.known.len());
        let mut round = Round {
            sample,
            folder: ProcDir::new(root),
            groups: &mut self.groups,
            threads: &mut tables.thread,
            processes: &mut tables.process,
            new: Vec::new(),
            level: 0,
        };
        self.records.read(|part| match part {
            Part::Beginning => round.begin(),
            Part::Records(bytes) => round.take(bytes, &mut self.places, &mut self.known),
        })?;
        let (level, mut new) = (round.level, round.new);
        self.samples = sample;
        let gone: Vec<Known> = self.known.extract_if(.., |known| known.seen != sample).collect();
        if !new.is_empty() {
            // In the first reading all are new.
            if self.known.is_empty() {
                self.known = new;
            } else {
                self.known.append(&mut new);
            }
            self.known.sort_by_key(|known| known.pid);
        }
        if self.samples > 1 {
            self.put_ended(&gone, out);
        }
        self.watch_exits(level)
    }

    /// Rows of those that have ended since the last sample. They are asked for after the living: who ended in between is
    /// among the living, or a zombie, and has his row.
    fn put_ended(&mut self, gone: &[Known], out: &mut Snapshot) {
        let Ok(exits) = &mut self.exits else { return };
        let mut unseen = Vec::new();
        for exit in exits.take(|exit| who_ended(gone, exit).is_some()) {
            if who_ended(&self.known, &exit).is_some() {
                continue;
            }
            match who_ended(gone, &exit) {
                Some(known) => out.task.process.push(exits::last_row(&known.row, &exit)),
                None => unseen.push(exit),
            }
        }
        out.task.brief = exits::briefs(&unseen, exits.pending_parents());
    }

    /// Tells of the ends of processes that were not noted; begins to note them after the first sample.
    ///
    /// # Errors
    /// They cannot be noted, or not all of them were.
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
            lost => Err(SourceError::Failed(format!("{lost} processes ended too fast to be noted"))),
        }
    }
}

/// A process' threads, the main one with the process' part.
type Family = [(ThreadRecord, Option<ProcessRecord>)];

impl Known {
    fn new(key: TaskKey) -> Self {
        Self { pid: key.pid, row: Process::new(key), thread_stats: ProcessThreads::default(), seen: 0, named: None }
    }

    /// The process with this main thread: another one may have had its number.
    fn or_another(&mut self, key: TaskKey) -> &mut Self {
        if self.row.task != key {
            *self = Self::new(key);
        }
        self
    }

    fn read(&mut self, round: &mut Round<'_>, main: &ThreadRecord, process: &ProcessRecord, family: &Family) {
        round.folder.enter_process(main.pid);
        self.put_names(round, main, process);
        self.put_process(main, process, &mut round.folder);
        self.put_used(process, family);
        self.row.wait_channel = wait_channel(&mut round.folder, main.state() == "D");
        self.put_threads(round, process, family);
        self.seen = round.sample;
        round.processes.push(self.row.clone());
    }

    fn put_names(&mut self, round: &mut Round<'_>, main: &ThreadRecord, process: &ProcessRecord) {
        let ran = main.used.cpu.runtime;
        let name_due = self.named.is_none_or(|(sample, until_then)| {
            main.flags & WORKER != 0 && sample + NAMES_EVERY <= round.sample && ran != until_then
        });
        let row = &mut *self.row;
        if !is_kernel_thread(main) {
            renew(&mut row.command, Some(&String::from_utf8_lossy(main.name())));
        } else if name_due && let Ok(name) = round.folder.read("comm") {
            self.named = Some((round.sample, ran));
            renew(&mut row.command, Some(&String::from_utf8_lossy(name.trim_ascii_end())));
        }
        let (folder, groups) = (&mut round.folder, &mut *round.groups);
        row.cgroup = groups.entry(process.groups).or_insert_with(|| groups_of(folder)).clone();
        renew_shared(&mut row.state, Some(main.state()));
        renew_shared(&mut row.policy, policy(main.policy));
    }

    fn put_process(&mut self, main: &ThreadRecord, process: &ProcessRecord, folder: &mut ProcDir) {
        let row = &mut *self.row;
        row.parent = process.parent.into();
        row.threads = process.threads.into();
        row.nice = main.nice().into();
        row.user_id = process.user_id.into();
        row.children_user = process.children_user.into();
        row.children_system = process.children_system.into();
        row.kernel_thread = u64::from(is_kernel_thread(main)).into();
        put_memory(row, process.memory);
        row.open_files = Gauge::ABSENT;
        row.open_files_limit = Gauge::ABSENT;
        row.processes_limit = Gauge::ABSENT;
        if !is_kernel_thread(main) {
            row.open_files_limit = limit(process.open_files_limit);
            row.processes_limit = limit(process.processes_limit);
            if main.state() != "Z" {
                // The program does not count a large table; the folder's size does.
                let files = process.open_files.or_else(|| folder.open_files().ok());
                row.open_files = files.into();
            }
        }
    }

    /// What all threads used, the ended ones included.
    fn put_used(&mut self, process: &ProcessRecord, family: &Family) {
        let used = family.iter().fold(process.ended, |sum, (thread, _)| add(sum, thread.used));
        let row = &mut *self.row;
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

    /// Rows of the threads where there are several, and what the kernel does not keep of those that have ended.
    fn put_threads(&mut self, round: &mut Round<'_>, process: &ProcessRecord, family: &Family) {
        let several = process.threads > 1;
        let mut tallies = Vec::with_capacity(family.len());
        for (thread, _) in family {
            let key = thread.key();
            let mut tally = tally(thread);
            if several {
                let before = self.thread_stats.get(&key);
                let ran = before.map(|b| tally.may_have_run_since(b));
                round.folder.enter_thread(key.pid, key.tid);
                tally.waits_for_lock = match ran {
                    Some(true) => waits_for_lock(&mut round.folder, thread.state() == "S"),
                    _ => before.and_then(|b| b.waits_for_lock),
                };
                round.threads.push(row(thread, &tally, &mut round.folder));
            }
            tallies.push((key, tally));
        }
        self.thread_stats.update(tallies);
        let total = self.thread_stats.total();
        let row = &mut *self.row;
        row.run_delay = total.run_delay.into();
        row.block_delay = total.block_delay.into();
        row.swap_delay = total.swap_delay.into();
        row.reclaim_delay = total.reclaim_delay.into();
        row.migrations = total.migrations.into();
    }
}

/// The one of these, in order of number, that has ended.
fn who_ended<'k>(known: &'k [Known], exit: &ExitRecord) -> Option<&'k Known> {
    let at = known.binary_search_by_key(&exit.pid, |known| known.pid).ok()?;
    Some(&known[at]).filter(|known| known.row.task == exit.key())
}

/// The control groups of the process entered.
fn groups_of(folder: &mut ProcDir) -> State {
    folder.read("cgroup").ok().and_then(pid_files::cgroups).into()
}

fn is_kernel_thread(thread: &ThreadRecord) -> bool {
    thread.flags & KERNEL_THREAD != 0
}

/// A thread of the kernel and a zombie have no memory: their size is 0, and there are no parts.
fn put_memory(row: &mut ProcessRow, memory: Option<Pages>) {
    // A kernel counts pages per processor and adds up later: a part can be negative for a while.
    let bytes = |pages: u64| (pages as i64).max(0) as u64 * page_size();
    let part = |f: fn(&Pages) -> u64| memory.as_ref().map_or(Gauge::ABSENT, |m| bytes(f(m)).into());
    row.rss_anon = part(|m| m.anon);
    row.rss_file = part(|m| m.file);
    row.rss_shmem = part(|m| m.shmem);
    row.swap = part(|m| m.swap);
    let all = memory.unwrap_or_default();
    row.rss = (bytes(all.anon) + bytes(all.file) + bytes(all.shmem)).into();
    row.virtual_size = bytes(all.size).into();
}

/// A limit; absent where there is none (RLIM_INFINITY).
fn limit(value: u64) -> Gauge {
    if value == u64::MAX { Gauge::ABSENT } else { value.into() }
}

fn tally(thread: &ThreadRecord) -> ThreadStats {
    ThreadStats {
        run: Some(thread.used.cpu.runtime),
        run_delay: thread.run_delay,
        block_delay: thread.block_delay,
        swap_delay: thread.swap_delay,
        reclaim_delay: thread.reclaim_delay,
        migrations: Some(thread.migrations),
        ..ThreadStats::default()
    }
}

fn row(thread: &ThreadRecord, tally: &ThreadStats, folder: &mut ProcDir) -> Thread {
    let mut row = Thread::new(thread.key());
    let (user, system) = cputime::adjusted(&thread.used.cpu, None, None);
    row.command = String::from_utf8_lossy(thread.name()).as_ref().into();
    row.state = thread.state().into();
    row.user = user.into();
    row.system = system.into();
    row.run_delay = tally.run_delay.into();
    row.block_delay = tally.block_delay.into();
    row.swap_delay = tally.swap_delay.into();
    row.reclaim_delay = tally.reclaim_delay.into();
    row.major_faults = thread.used.major_faults.into();
    row.voluntary_switches = thread.used.voluntary_switches.into();
    row.involuntary_switches = thread.used.involuntary_switches.into();
    row.migrations = tally.migrations.into();
    row.lock_wait = tally.waits_for_lock.map(u64::from).into();
    row.processor = thread.processor.into();
    row.nice = thread.nice().into();
    row.wait_channel = wait_channel(folder, thread.state() == "D");
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
