//! Time breakdown of a program's threads: each thread is running, waiting for a CPU, or blocked, and the times add up to its
//! lifetime (bpf/breakdown.bpf.c).
//!
//! Only watched processes and their later children are traced. For a blocked thread the kernel reports the stack, the system call
//! and its arguments, the disk that the thread last sent a request to, the destination of its datagrams, and the task that ended
//! the wait. File descriptors are resolved while their process exists.

mod connections;
mod ended;
mod files;
mod holders;
#[cfg(test)]
mod live_tests;
mod parts;
mod records;
mod targets;
mod times;
mod titles;
mod wanted;

pub use targets::processes_where;
pub use times::{ProcessTimes, ThreadSet};

use super::address_space::AddressSpaces;
use super::recorder::{self, Clock};
use super::{sleepers, target};
use crate::bpf::{Object, c_string, include_object};
use crate::kallsyms::KernelSymbols;
use crate::os;
use crate::root::{Root, status_field};
use crate::source_error::SourceError;
use crate::task::WaitFunctions;
use aya::sys::{Stats, enable_stats};
use connections::Destination;
use ended::{Counted, EndedProcesses};
use files::{OpenFiles, Peers, Wanted};
use records::{ACCOUNT, BLOCKED, DestinationRecord, FOLLOW, INTERRUPT, Slice, Spent, StackTotals, ThreadRecord, Watch};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use titles::LockTitles;
use whyslow_documents::time_breakdown::TraceCost;

/// Sampling rate of each CPU, as in a profile.
const HZ: u32 = 99;
/// Sampling rate at the start of a command, which may be short, and the duration of that phase.
const HZ_AT_FIRST: u32 = 1999;
const AT_FIRST: Duration = Duration::from_millis(300);

/// Minimum interval between lookups of peers: a lookup reads the descriptors of all processes.
const LOOK_UP_EVERY: Duration = Duration::from_secs(1);

/// A thread that existed when its process began to be watched.
#[derive(Clone, Debug)]
struct FirstThread {
    tgid: u32,
    runs: bool,
    /// The kernel functions it was in, innermost first.
    functions: Vec<String>,
    wanted: wanted::Wanted,
}

/// Traces the time of processes. Dropping it stops the tracing.
pub struct BreakdownTracer {
    object: Object,
    root: Root,
    clock: Clock,
    symbols: KernelSymbols,
    functions: WaitFunctions,
    spaces: AddressSpaces,
    files: OpenFiles,
    peers: Peers,
    titles: LockTitles,
    wanted: Wanted,
    looked_up: Option<Instant>,
    /// Names of processes, and of threads that others waited for.
    names: BTreeMap<u32, String>,
    first_threads: HashMap<u32, FirstThread>,
    ended: EndedProcesses,
    began: Instant,
    /// Start time of a command whose first phase is sampled more often.
    command_began: Option<Instant>,
    /// Time when counting stopped, CLOCK_MONOTONIC.
    stopped: Option<u64>,
    statistics: Option<OwnedFd>,
}

impl BreakdownTracer {
    /// Interval at which to call [`poll`](Self::poll), as for a profile.
    pub const PACE: Duration = super::Profiler::PACE;

    /// Loads the tracer. It watches no process yet.
    ///
    /// # Errors
    /// Fails if this kernel does not allow tracing, or if the observer is in another pid namespace.
    pub fn start(root: Root) -> Result<Self, SourceError> {
        target::require_own_numbers(&root)?;
        let symbols = KernelSymbols::read(&root);
        let functions = WaitFunctions::from_symbols(&symbols)?;
        let mut object = Object::load("breakdown", include_object!("breakdown"), &root)?;
        object.set_element("period", 0, period(HZ))?;
        let clock = Clock::start(&mut object, HZ, &root)?;
        Ok(Self {
            object,
            root,
            clock,
            symbols,
            functions,
            spaces: AddressSpaces::default(),
            files: OpenFiles::default(),
            peers: Peers::default(),
            titles: LockTitles::default(),
            wanted: Wanted::default(),
            looked_up: None,
            names: BTreeMap::new(),
            first_threads: HashMap::new(),
            ended: EndedProcesses::default(),
            began: Instant::now(),
            command_began: None,
            stopped: None,
            statistics: enable_stats(Stats::RunTime).ok(),
        })
    }

    /// Watches a process and its future children from now on.
    ///
    /// # Errors
    /// Fails if the BPF map is full.
    pub fn watch(&mut self, pid: u32) -> Result<(), SourceError> {
        self.watch_below(pid, pid)
    }

    /// Watches the existing children of a process and their descendants.
    ///
    /// # Errors
    /// Fails if the BPF map is full.
    pub fn watch_children(&mut self, pid: u32) -> Result<(), SourceError> {
        let mut parents = vec![pid];
        while let Some(parent) = parents.pop() {
            for child in targets::children(parent, &self.root) {
                self.watch_below(child, pid)?;
                parents.push(child);
            }
        }
        Ok(())
    }

    /// Watches a process as part of the group of `root`.
    fn watch_below(&mut self, pid: u32, root: u32) -> Result<(), SourceError> {
        if self.watched()?.iter().any(|(known, watch)| *known == pid && watch.what & ACCOUNT != 0) {
            return Ok(());
        }
        self.set(pid, ACCOUNT | FOLLOW, root)?;
        // The children may end before the next poll.
        targets::children(pid, &self.root).into_iter().for_each(|child| self.note_name(child));
        for tid in self.root.list(&format!("proc/{pid}/task")).iter().filter_map(|tid| tid.parse().ok()) {
            if let Some(thread) = self.first_thread(pid, tid) {
                self.files.note(pid, thread.wanted.file, &self.root);
                self.first_threads.insert(tid, thread);
            }
        }
        self.note_names()
    }

    /// Watches the children that this program starts, and their descendants, until
    /// [`stop_following_own`](Self::stop_following_own).
    ///
    /// # Errors
    /// Fails if the BPF map is full, or the kernel currently does not allow more samples.
    pub fn follow_own_children(&mut self) -> Result<(), SourceError> {
        self.command_began = Some(Instant::now());
        self.set_rate(HZ_AT_FIRST)?;
        self.set(std::process::id(), FOLLOW, 0)
    }

    /// Stops watching new children of this program; existing ones are still watched.
    ///
    /// # Errors
    /// Fails if the BPF map cannot be written.
    pub fn stop_following_own(&mut self) -> Result<(), SourceError> {
        self.set(std::process::id(), 0, 0)
    }

    /// Counts the time of a thread separately from now on, in addition to that of its process.
    ///
    /// # Errors
    /// Fails if the BPF map is full.
    pub fn single_out(&mut self, tid: u32) -> Result<(), SourceError> {
        self.note_name(tid);
        self.object.insert("singled", tid, 1_u32)?;
        self.object.set_element("singles", 0, 1_u32)
    }

    fn set(&mut self, pid: u32, what: u32, root: u32) -> Result<(), SourceError> {
        let watch = Watch { began: os::monotonic_ns(), ended: 0, lived: 0, what, born: 0, root, pad: 0, comm: [0; 16] };
        self.object.insert("watched", pid, watch)
    }

    fn set_rate(&mut self, hz: u32) -> Result<(), SourceError> {
        self.clock.set_rate(&mut self.object, hz, &self.root)?;
        self.object.set_element("period", 0, period(hz))
    }

    fn first_thread(&self, tgid: u32, tid: u32) -> Option<FirstThread> {
        let status = self.root.maybe(&format!("proc/{tgid}/task/{tid}/status"))?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let runs = field("State:")?.starts_with('R');
        let functions = if runs { Vec::new() } else { sleepers::functions(tgid, tid, &self.root) };
        let call = self.root.maybe(&format!("proc/{tgid}/task/{tid}/syscall")).unwrap_or_default();
        Some(FirstThread { tgid, runs, functions, wanted: wanted::wanted(tgid, &call, &self.root) })
    }

    fn watched(&self) -> Result<Vec<(u32, Watch)>, SourceError> {
        self.object.entries("watched")
    }

    /// Maps each watched process, including ended ones, to the requested process that it belongs to: itself or an ancestor.
    ///
    /// # Errors
    /// Fails if the BPF map cannot be read.
    pub fn processes(&self) -> Result<BTreeMap<u32, u32>, SourceError> {
        let ended = self.ended.times.iter().map(|(pid, process)| (*pid, process.root));
        let watched = self.watched()?.into_iter().filter(|(_, watch)| watch.what & ACCOUNT != 0);
        Ok(ended.chain(watched.map(|(pid, watch)| (pid, watch.root))).collect())
    }

    /// Returns the process of a thread.
    pub fn process_of(&self, tid: u32) -> Option<u32> {
        let status = self.root.maybe(&format!("proc/{tid}/status"))?;
        status_field(&status, "Tgid")?.parse().ok()
    }

    /// Returns the name of a process, even if it has ended, or of a thread that others waited for.
    pub fn name(&self, pid: u32) -> Option<&str> {
        self.names.get(&pid).map(String::as_str)
    }

    /// Records data that is lost once a process has ended: names, mappings, files behind descriptors.
    ///
    /// # Errors
    /// Fails if the BPF maps cannot be read.
    pub fn poll(&mut self) -> Result<(), SourceError> {
        let at_first = self.command_began.is_some_and(|began| began.elapsed() < AT_FIRST);
        if self.command_began.is_some() && !at_first {
            self.command_began = None;
            self.set_rate(HZ)?;
        }
        let spaces = recorder::spaces(&self.object)?;
        // A program that has just started is still loading its libraries.
        if at_first {
            self.spaces.update(spaces, &self.root)
        } else {
            self.spaces.add(spaces, &self.root)
        }
        self.note_names()?;
        let slices = self.object.entries::<Slice, Spent>("slices")?;
        slices.iter().for_each(|(slice, _)| self.note_slice(slice));
        let threads = self.object.entries::<u32, ThreadRecord>("threads")?;
        for (_, thread) in threads.iter().filter(|(_, thread)| thread.state == BLOCKED) {
            self.files.note(thread.tgid, thread.first, &self.root);
        }
        self.wanted
            .pollers
            .extend(self.first_threads.values().filter(|thread| thread.polls()).map(|thread| thread.tgid));
        self.note_destinations(&slices, &threads)?;
        let due = self.looked_up.is_none_or(|last| last.elapsed() >= LOOK_UP_EVERY);
        if due && self.peers.lacks(&self.files, &self.wanted) {
            self.peers.look_up(&self.files, &self.wanted, &self.root);
            self.looked_up = Some(Instant::now());
        }
        self.take_ended(&slices, &threads)
    }

    fn note_slice(&mut self, slice: &Slice) {
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

    /// Records the destinations of datagrams that await an answer.
    fn note_destinations(
        &mut self,
        slices: &[(Slice, Spent)],
        threads: &[(u32, ThreadRecord)],
    ) -> Result<(), SourceError> {
        let asked = threads.iter().filter(|(_, thread)| thread.asked != 0).map(|(_, t)| (t.peer, t.tgid));
        let asking = slices.iter().map(|(slice, _)| (slice.peer, slice.tgid)).chain(asked);
        let new: BTreeMap<u32, u32> =
            asking.filter(|(peer, _)| *peer != 0 && !self.wanted.destinations.contains_key(peer)).collect();
        for (number, tgid) in new {
            if let Some(r) = self.object.get::<u32, DestinationRecord>("destinations", &number)? {
                let to = Destination::new(r.family, r.address, r.port, r.local_port);
                self.wanted.destinations.insert(number, (tgid, to));
            }
        }
        Ok(())
    }

    fn take_ended(&mut self, slices: &[(Slice, Spent)], threads: &[(u32, ThreadRecord)]) -> Result<(), SourceError> {
        let alive: BTreeSet<u32> = threads.iter().map(|(_, thread)| thread.tgid).collect();
        let watched = self.watched()?;
        let processes = watched.len();
        let has_ended = |(pid, watch): &(u32, Watch)| {
            watch.ended != 0 && watch.what & ACCOUNT != 0 && watch.root != *pid && !alive.contains(pid)
        };
        let ended = watched.into_iter().filter(has_ended).collect();
        let (names, files, spaces) = (&self.names, &self.files, &self.spaces);
        self.ended.take(&mut self.object, &Counted { ended, slices, processes, names, files, spaces })
    }

    fn note_names(&mut self) -> Result<(), SourceError> {
        for (pid, watch) in self.watched()? {
            // The name at exit is final: `execve` changes it.
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
    /// Fails if the BPF map cannot be written.
    pub fn stop(&mut self) -> Result<(), SourceError> {
        self.object.set_element("stopped", 0, 1_u32)?;
        self.stopped = Some(os::monotonic_ns());
        Ok(())
    }

    /// Returns the cost of tracing.
    pub fn cost(&self) -> TraceCost {
        let (events, time) = self.object.cost();
        let whole = self.began.elapsed().as_secs_f64() * f64::from(self.clock.cpus());
        let cpu_share = self.statistics.as_ref().map(|_| time.as_secs_f64() / whole.max(1e-9));
        let lost = self.object.element::<StackTotals>("totals", 0).map_or(0, |totals| totals.lost);
        TraceCost { events, cpu_share, lost }
    }
}

/// Returns the time that a sample represents, ns.
fn period(hz: u32) -> u64 {
    1_000_000_000 / u64::from(hz)
}
