//! Where the time of a program's threads goes: each is running, waiting for a CPU, or blocked, and the times add up to its life
//! (bpf/breakdown.bpf.c).
//!
//! Only watched processes are traced, from the moment on that they are watched. Of what blocked them the kernel tells the stack, the
//! system call and its first argument, the disk that the thread last sent a request to, and who ended the wait. What a file
//! descriptor stands for is looked up while its process lives.

mod files;
#[cfg(test)]
mod live_tests;
mod parts;
mod targets;
mod titles;

pub use targets::processes_where;

use super::address_space::AddressSpaces;
use super::recorder::{self, RawStack, StackRecord};
use super::symbolizer::Symbolizer;
use super::{sleepers, target};
use crate::bpf::{Object, c_string, c_struct, include_object};
use crate::os;
use crate::root::Root;
use crate::source_error::SourceError;
use crate::task::{WaitFunctions, awaited_lock};
use aya::sys::{Stats, enable_stats};
use files::{OpenFiles, Peers, Wanted};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use titles::LockTitles;
use whyslow_model::time_breakdown::{LockedThread, ThreadTime, TimePart, TraceCost};

/// How often a CPU is sampled: as in a profile.
const HZ: u32 = 99;

/// How often the other ends of connections are looked up at most: it reads the descriptors of all processes.
const LOOK_UP_EVERY: Duration = Duration::from_secs(1);

/// As in bpf/breakdown.bpf.c.
const ACCOUNT: u32 = 1;
const FOLLOW: u32 = 2;
const ON_CPU: u32 = 0;
const QUEUED: u32 = 1;
const BLOCKED: u32 = 2;
const UNSEEN: u32 = 3;
const SAMPLE_USER: u32 = 4;
const SAMPLE_KERNEL: u32 = 5;
const INTERRUPT: u32 = 1;
const LOCK: u32 = 2;

c_struct! {
    /// `struct watch`.
    struct Watch {
        began: u64,
        ended: u64,
        lived: u64,
        what: u32,
        born: u32,
        comm: [u8; 16],
    }

    /// `struct thread`.
    struct ThreadRecord {
        born: u64,
        since: u64,
        stack: u64,
        on_cpu: u64,
        queued: u64,
        blocked: u64,
        tgid: u32,
        state: u32,
        device: u32,
        first: i32,
        futex: u32,
        lock: u32,
        shared: u32,
        pad: u32,
        got: u64,
        acquired: u64,
        wanted: u64,
        kept_by: u32,
        kept_by_thread: u32,
    }

    /// `struct slice`.
    #[derive(Debug, Default, PartialEq, Eq, Hash)]
    struct Slice {
        stack: u64,
        tgid: u32,
        state: u32,
        other: u32,
        other_thread: u32,
        device: u32,
        first: i32,
        flags: u32,
        pad: u32,
    }

    /// `struct spent`.
    #[derive(Debug, Default)]
    struct Spent {
        ns: u64,
        times: u64,
    }

    /// `struct totals` of bpf/stacks.h.
    struct StackTotals {
        idle: u64,
        lost: u64,
    }
}

/// A thread that existed when its process began to be watched.
#[derive(Clone, Debug)]
struct FirstThread {
    tgid: u32,
    runs: bool,
    /// The kernel functions it was in, innermost first.
    functions: Vec<String>,
    /// The first argument of the system call that it was in; -1 if it was in none.
    first: i32,
    /// The address of the lock that it waited for.
    lock: Option<u64>,
}

/// Traces the time of processes. Dropping it stops the tracing.
pub struct BreakdownTracer {
    object: Object,
    root: Root,
    functions: WaitFunctions,
    spaces: AddressSpaces,
    files: OpenFiles,
    peers: Peers,
    titles: LockTitles,
    wanted: Wanted,
    looked_up: Option<Instant>,
    /// Of processes, and of threads that others waited for.
    names: BTreeMap<u32, String>,
    first_threads: HashMap<u32, FirstThread>,
    began: Instant,
    /// When counting stopped, CLOCK_MONOTONIC.
    stopped: Option<u64>,
    cpus: u32,
    statistics: Option<OwnedFd>,
}

/// The time of some processes together.
#[derive(Clone, Debug, Default)]
pub struct ProcessTimes {
    /// From when the first was watched to when the last ended, or until now, seconds.
    pub seconds: f64,
    /// Threads, those that ended included.
    pub threads: usize,
    /// The sum of their lives while they were watched, seconds.
    pub thread_seconds: f64,
    /// What they did, longest first.
    pub parts: Vec<TimePart>,
    /// The threads that are alive, busiest first.
    pub busiest: Vec<ThreadTime>,
    /// Threads that wait for each other's locks.
    pub deadlock: Vec<LockedThread>,
}

impl BreakdownTracer {
    /// How often to call [`poll`](Self::poll), as for a profile.
    pub const PACE: Duration = super::Profiler::PACE;

    /// Loads the tracer. Nothing is watched yet.
    ///
    /// # Errors
    /// This kernel does not allow tracing, or process numbers are not its own.
    pub fn start(root: Root) -> Result<Self, SourceError> {
        target::require_own_numbers(&root)?;
        let functions = WaitFunctions::read(&root)?;
        let mut object = Object::load("breakdown", include_object!("breakdown"), &root)?;
        let cpus = recorder::start_clock(&mut object, HZ, &root)?;
        Ok(Self {
            object,
            root,
            functions,
            spaces: AddressSpaces::default(),
            files: OpenFiles::default(),
            peers: Peers::default(),
            titles: LockTitles::default(),
            wanted: Wanted::default(),
            looked_up: None,
            names: BTreeMap::new(),
            first_threads: HashMap::new(),
            began: Instant::now(),
            stopped: None,
            cpus,
            statistics: enable_stats(Stats::RunTime).ok(),
        })
    }

    /// Watches a process from now on, and with `follow` the children that it will have.
    ///
    /// # Errors
    /// The BPF map is full.
    pub fn watch(&mut self, pid: u32, follow: bool) -> Result<(), SourceError> {
        if self.watched()?.iter().any(|(known, watch)| *known == pid && watch.what & ACCOUNT != 0) {
            return Ok(());
        }
        let what = ACCOUNT | if follow { FOLLOW } else { 0 };
        self.set(pid, what)?;
        for tid in self.root.list(&format!("proc/{pid}/task")).iter().filter_map(|tid| tid.parse().ok()) {
            if let Some(thread) = self.first_thread(pid, tid) {
                self.files.note(pid, thread.first, &self.root);
                self.first_threads.insert(tid, thread);
            }
        }
        self.note_names()
    }

    /// Watches the children that this program starts until [`stop_following_own`](Self::stop_following_own), with theirs.
    ///
    /// # Errors
    /// The BPF map is full.
    pub fn follow_own_children(&mut self) -> Result<(), SourceError> {
        self.set(std::process::id(), FOLLOW)
    }

    /// Watches no more children of this program; those it has are still watched.
    ///
    /// # Errors
    /// The BPF map cannot be written.
    pub fn stop_following_own(&mut self) -> Result<(), SourceError> {
        self.set(std::process::id(), 0)
    }

    fn set(&mut self, pid: u32, what: u32) -> Result<(), SourceError> {
        let watch = Watch { began: os::monotonic_ns(), ended: 0, lived: 0, what, born: 0, comm: [0; 16] };
        self.object.insert("watched", pid, watch)
    }

    fn first_thread(&self, tgid: u32, tid: u32) -> Option<FirstThread> {
        let status = self.root.maybe(&format!("proc/{tgid}/task/{tid}/status"))?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let runs = field("State:")?.starts_with('R');
        let functions = if runs { Vec::new() } else { sleepers::functions(tgid, tid, &self.root) };
        // `0 0x3 0x7ffd...`: the number and the arguments of the system call (proc_pid_syscall(5)).
        let call = self.root.maybe(&format!("proc/{tgid}/task/{tid}/syscall")).unwrap_or_default();
        let first = call.split(' ').nth(1).and_then(|word| i32::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        let lock = awaited_lock(call.trim_end().as_bytes());
        Some(FirstThread { tgid, runs, functions, first: first.unwrap_or(-1), lock })
    }

    fn watched(&self) -> Result<Vec<(u32, Watch)>, SourceError> {
        self.object.entries("watched")
    }

    /// The processes that are watched, those that have ended included.
    ///
    /// # Errors
    /// The BPF map cannot be read.
    pub fn processes(&self) -> Result<Vec<u32>, SourceError> {
        Ok(self.watched()?.into_iter().filter(|(_, watch)| watch.what & ACCOUNT != 0).map(|(pid, _)| pid).collect())
    }

    /// A process's name, even if it has ended.
    pub fn name(&self, pid: u32) -> Option<&str> {
        self.names.get(&pid).map(String::as_str)
    }

    /// Notes what could not be looked up any more once a process has ended: names, mappings, what its file descriptors stand for.
    ///
    /// # Errors
    /// The BPF maps cannot be read.
    pub fn poll(&mut self) -> Result<(), SourceError> {
        self.spaces.add(recorder::spaces(&self.object)?, &self.root);
        self.note_names()?;
        for (slice, _) in self.object.entries::<Slice, Spent>("slices")? {
            self.note_name(slice.other);
            if slice.other_thread != 0 && !self.names.contains_key(&slice.other_thread) {
                let path = format!("proc/{}/task/{}/comm", slice.other, slice.other_thread);
                self.names.extend(self.root.word(&path).map(|name| (slice.other_thread, name)));
            }
            if slice.state == BLOCKED {
                self.files.note(slice.tgid, slice.first, &self.root);
                if slice.flags & INTERRUPT != 0 && slice.other != 0 && slice.other != slice.tgid {
                    self.wanted.pairs.insert((slice.tgid, slice.other));
                }
            }
        }
        for (_, thread) in self.object.entries::<u32, ThreadRecord>("threads")? {
            if thread.state == BLOCKED {
                self.files.note(thread.tgid, thread.first, &self.root);
            }
        }
        self.wanted
            .pollers
            .extend(self.first_threads.values().filter(|thread| thread.polls()).map(|thread| thread.tgid));
        let due = self.looked_up.is_none_or(|last| last.elapsed() >= LOOK_UP_EVERY);
        if due && self.peers.lacks(&self.files, &self.wanted) {
            self.peers.look_up(&self.files, &self.wanted, &self.root);
            self.looked_up = Some(Instant::now());
        }
        Ok(())
    }

    fn note_names(&mut self) -> Result<(), SourceError> {
        for (pid, watch) in self.watched()? {
            // The name that a process ended with is the last: `execve` gives it another one.
            let last = c_string(&watch.comm);
            if last.is_none() && watch.what & ACCOUNT != 0 {
                self.titles.note(pid, &self.root);
            }
            let name = last.clone().or_else(|| self.root.word(&format!("proc/{pid}/comm")));
            if let Some(name) = name.filter(|name| self.names.get(&pid) != Some(name)) {
                let renamed = self.names.insert(pid, name).is_some();
                if renamed && last.is_none() {
                    self.files.forget(pid);
                }
            }
        }
        Ok(())
    }

    fn note_name(&mut self, pid: u32) {
        if pid != 0
            && !self.names.contains_key(&pid)
            && let Some(name) = self.root.word(&format!("proc/{pid}/comm"))
        {
            self.names.insert(pid, name);
        }
    }

    /// Stops counting, so that the times read from now on add up exactly.
    ///
    /// # Errors
    /// The BPF map cannot be written.
    pub fn stop(&mut self) -> Result<(), SourceError> {
        self.object.set_element("stopped", 0, 1_u32)?;
        self.stopped = Some(os::monotonic_ns());
        Ok(())
    }

    /// The time so far of each of these groups of processes.
    ///
    /// # Errors
    /// The BPF maps cannot be read.
    pub fn read(&mut self, groups: &[BTreeSet<u32>]) -> Result<Vec<ProcessTimes>, SourceError> {
        let now = self.stopped.unwrap_or_else(os::monotonic_ns);
        self.poll()?;
        let ids = recorder::spaces(&self.object)?;
        self.spaces.update(ids, &self.root);
        let stacks: HashMap<u64, RawStack> = self
            .object
            .entries::<u64, StackRecord>("stacks")?
            .iter()
            .map(|(key, r)| (*key, RawStack::from(r)))
            .collect();
        let symbolizer = Symbolizer::new(stacks.values(), &self.spaces, &self.root);
        let watched: BTreeMap<u32, Watch> = self.watched()?.into_iter().collect();
        let threads: HashMap<u32, ThreadRecord> = self.object.entries("threads")?.into_iter().collect();
        let mut slices: HashMap<Slice, Spent> = self.object.entries("slices")?.into_iter().collect();
        let mut owners: BTreeMap<u32, u32> = BTreeMap::new();
        for (tid, thread) in self.first_threads.iter().filter(|(tid, _)| !threads.contains_key(tid)) {
            owners.extend(thread.lock.and_then(|lock| Some((*tid, lock_owner(thread.tgid, lock, &self.root)?))));
        }
        for (tid, thread) in &threads {
            let mut slice = thread.open_slice(*tid);
            if thread.state == BLOCKED
                && thread.lock != 0
                && let Some(owner) = lock_owner(thread.tgid, thread.wanted, &self.root)
            {
                (slice.other, slice.other_thread) = (thread.tgid, owner);
                owners.insert(*tid, owner);
            }
            let spent = slices.entry(slice).or_default();
            spent.ns = spent.ns.saturating_add(now.saturating_sub(thread.since));
            spent.times += 1;
        }
        let sources = parts::Sources {
            root: &self.root,
            functions: &self.functions,
            stacks: &stacks,
            symbolizer: &symbolizer,
            files: &self.files,
            peers: &self.peers,
            titles: &self.titles,
            names: &self.names,
            first_threads: &self.first_threads,
        };
        let mut times = Vec::new();
        for group in groups {
            let mut parts = parts::PartSums::new(&sources);
            slices
                .iter()
                .filter(|(slice, _)| group.contains(&slice.tgid))
                .for_each(|(slice, spent)| parts.add(slice, *spent));
            let (mut number, mut lived) = (0, 0_u64);
            let (mut from, mut to) = (now, 0);
            for (pid, watch) in watched.iter().filter(|(pid, _)| group.contains(pid)) {
                from = from.min(watch.began);
                to = to.max(if watch.ended == 0 { now } else { watch.ended });
                let still = self.threads_without_event(*pid, &threads);
                for (tid, thread) in &still {
                    parts.add_still(thread, owners.get(tid).copied(), now.saturating_sub(watch.began));
                }
                lived += watch.lived + still.len() as u64 * now.saturating_sub(watch.began);
                number +=
                    watch.born as usize + self.first_threads.values().filter(|thread| thread.tgid == *pid).count();
            }
            let alive = threads.iter().filter(|(_, thread)| group.contains(&thread.tgid));
            lived += alive.clone().map(|(_, thread)| now.saturating_sub(thread.born)).sum::<u64>();
            times.push(ProcessTimes {
                seconds: to.saturating_sub(from) as f64 / 1e9,
                threads: number,
                thread_seconds: lived as f64 / 1e9,
                parts: parts.finish(lived),
                busiest: self.busiest(alive, now),
                deadlock: self.named(group, &cycle(&owners)),
            });
        }
        Ok(times)
    }

    /// Threads that have done nothing but stay in one state since they are watched.
    fn threads_without_event(&self, pid: u32, threads: &HashMap<u32, ThreadRecord>) -> Vec<(&u32, &FirstThread)> {
        let silent = self.first_threads.iter().filter(|(tid, thread)| thread.tgid == pid && !threads.contains_key(tid));
        silent.filter(|(tid, _)| self.root.at(format!("proc/{pid}/task/{tid}")).exists()).collect()
    }

    fn busiest<'a>(&self, alive: impl Iterator<Item = (&'a u32, &'a ThreadRecord)>, now: u64) -> Vec<ThreadTime> {
        let time = |(tid, thread): (&u32, &ThreadRecord)| {
            let open = now.saturating_sub(thread.since);
            let of = |state, sum: u64| sum + if thread.state == state { open } else { 0 };
            let life = now.saturating_sub(thread.born).max(1) as f64;
            let name = self.root.word(&format!("proc/{}/task/{tid}/comm", thread.tgid));
            ThreadTime {
                name: name.unwrap_or_default(),
                tid: *tid,
                on_cpu: of(ON_CPU, thread.on_cpu) as f64 / life,
                waiting_for_cpu: of(QUEUED, thread.queued) as f64 / life,
            }
        };
        // A thread that has just ended has no name any more.
        let mut all: Vec<ThreadTime> = alive.map(time).filter(|thread| !thread.name.is_empty()).collect();
        all.sort_by(|a, b| (b.on_cpu + b.waiting_for_cpu).total_cmp(&(a.on_cpu + a.waiting_for_cpu)));
        all
    }

    /// Threads of a group of processes, with their names.
    fn named(&self, group: &BTreeSet<u32>, tids: &[u32]) -> Vec<LockedThread> {
        let of = |tid: &u32| {
            let name = |pid: &u32| self.root.word(&format!("proc/{pid}/task/{tid}/comm"));
            Some(LockedThread { name: group.iter().find_map(name)?, tid: *tid })
        };
        tids.iter().filter_map(of).collect()
    }

    /// What tracing has cost.
    pub fn cost(&self) -> TraceCost {
        let (events, time) = self.object.cost();
        let whole = self.began.elapsed().as_secs_f64() * f64::from(self.cpus);
        let cpu_share = self.statistics.as_ref().map(|_| time.as_secs_f64() / whole.max(1e-9));
        let lost = self.object.element::<StackTotals>("totals", 0).map_or(0, |totals| totals.lost);
        TraceCost { events, cpu_share, lost }
    }
}

/// Threads that wait for each other, by who waits for whom; empty if there are none.
fn cycle(owners: &BTreeMap<u32, u32>) -> Vec<u32> {
    for &start in owners.keys() {
        let way: Vec<u32> =
            std::iter::successors(Some(start), |tid| owners.get(tid).copied()).take(owners.len() + 1).collect();
        if let Some(back) = way.iter().skip(1).position(|&tid| tid == start) {
            return way[..=back].to_vec();
        }
    }
    Vec::new()
}

/// The thread that holds a mutex, as glibc notes it behind the futex word (struct __pthread_mutex_s, sysdeps/nptl). What other libraries
/// have there is hardly ever the number of one of the process's threads.
fn lock_owner(pid: u32, address: u64, root: &Root) -> Option<u32> {
    const OWNER: u64 = 8;
    let memory = File::open(root.at(format!("proc/{pid}/mem"))).ok()?;
    let mut owner = [0; 4];
    memory.read_exact_at(&mut owner, address.checked_add(OWNER)?).ok()?;
    let owner = u32::from_ne_bytes(owner);
    (owner != 0 && root.at(format!("proc/{pid}/task/{owner}")).exists()).then_some(owner)
}

impl ThreadRecord {
    /// What the thread is at now.
    fn open_slice(&self, tid: u32) -> Slice {
        let blocked = matches!(self.state, BLOCKED | UNSEEN);
        Slice {
            stack: if blocked { self.stack } else { 0 },
            tgid: self.tgid,
            state: self.state,
            other: 0,
            other_thread: 0,
            device: if blocked { self.device } else { 0 },
            first: match self.state {
                UNSEEN => tid as i32,
                BLOCKED => self.first,
                _ => 0,
            },
            flags: if blocked && self.lock != 0 { LOCK } else { 0 },
            pad: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::cycle;

    #[test]
    fn threads_that_wait_for_each_other_are_found() {
        let of = |pairs: &[(u32, u32)]| cycle(&pairs.iter().copied().collect());
        assert_eq!(of(&[(1, 2), (2, 1)]), [1, 2]);
        assert_eq!(of(&[(1, 2), (2, 3), (3, 4), (4, 2)]), [2, 3, 4]);
        assert_eq!(of(&[(5, 5)]), [5]);
        assert!(of(&[(1, 2), (2, 3), (4, 3)]).is_empty() && of(&[]).is_empty());
    }
}
