//! Sums time slices into parts: the kind of activity, the resources or processes responsible, and the functions.

use super::FirstThread;
use super::connections::Destination;
use super::files::{OpenFile, OpenFiles, Peer, Peers, device_name};
use super::holders::Lock;
use super::records::{
    BLOCKED, INTERRUPT, LOCK, MAIN, ON_CPU, POLLS_IN, POLLS_OUT, QUEUED, SAMPLE_KERNEL, SAMPLE_USER, SERVES, Slice,
    Spent, UNSEEN,
};
use super::targets::only_child;
use super::titles::LockTitles;
use crate::kallsyms::KernelSymbols;
use crate::profile::assemble::{is_libc, kernel_frames, user_frames};
use crate::profile::recorder::RawStack;
use crate::profile::symbolizer::Symbolizer;
use crate::root::Root;
use crate::task::{WaitFunctions, wait_reason};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use whyslow_documents::profile::{Frame, ProfileKind};
use whyslow_documents::time_breakdown::{Contributor, FEW_SAMPLES, FunctionShare, TimeKind, TimePart, UNKNOWN};

/// Maximum number of contributors and functions kept per part.
const KEPT: usize = 20;
/// Kernel functions in which a thread sleeps for a period, rather than until a signal.
const SLEEPS_FOR_A_TIME: [&str; 3] = ["hrtimer_nanosleep", "do_nanosleep", "common_nsleep"];

/// Data that explains the slices.
pub(super) struct Sources<'a> {
    pub(super) root: &'a Root,
    pub(super) symbols: &'a KernelSymbols,
    pub(super) functions: &'a WaitFunctions,
    pub(super) stacks: &'a HashMap<u64, RawStack>,
    /// `None` if functions are not requested.
    pub(super) symbolizer: Option<&'a Symbolizer<'a>>,
    pub(super) files: &'a OpenFiles,
    pub(super) peers: &'a Peers,
    pub(super) titles: &'a LockTitles,
    pub(super) names: &'a BTreeMap<u32, String>,
    pub(super) first_threads: &'a HashMap<u32, FirstThread>,
    /// Destinations of a process's datagrams, by number.
    pub(super) destinations: &'a HashMap<u32, (u32, Destination)>,
}

impl Sources<'_> {
    /// Returns the wait reason of a thread that blocked while it was watched.
    fn kind(&self, slice: &Slice) -> TimeKind {
        let stack = self.stacks.get(&slice.stack);
        let kind = stack.and_then(|stack| self.functions.reason(stack.kernel.iter().copied()));
        let reads = slice.flags & POLLS_OUT == 0;
        self.narrowed(kind.unwrap_or(TimeKind::Other), slice, slice.flags & LOCK != 0, reads)
    }

    /// Returns the wait reason of a thread that was blocked before it was watched.
    fn first_kind(&self, thread: &FirstThread, slice: &Slice) -> TimeKind {
        let kind = wait_reason(thread.functions.iter().map(String::as_str)).unwrap_or(TimeKind::Other);
        let locks = thread.wanted.lock.is_some_and(|lock| lock != Lock::File);
        let reads = thread.wanted.polled.is_none_or(|events| events & libc::POLLIN as u16 != 0);
        let flags = if thread.wanted.polled.is_some() { slice.flags | POLLS_IN } else { slice.flags };
        self.narrowed(kind, &Slice { flags, ..*slice }, locks, reads)
    }

    /// Refines the reason: a futex or semaphore may be a lock, and a poll of a single file is a wait for that file.
    fn narrowed(&self, kind: TimeKind, slice: &Slice, locks: bool, reads: bool) -> TimeKind {
        match kind {
            TimeKind::Futex | TimeKind::Ipc if locks => TimeKind::Lock,
            TimeKind::Poll if slice.flags & (POLLS_IN | POLLS_OUT) != 0 => {
                match self.files.get(slice.tgid, slice.first) {
                    Some(OpenFile::Socket(_)) if reads => TimeKind::Receive,
                    Some(OpenFile::Socket(_)) => TimeKind::Send,
                    Some(OpenFile::Pipe { .. }) => TimeKind::Pipe,
                    _ => TimeKind::Poll,
                }
            }
            kind => kind,
        }
    }

    /// Returns the child that this slice waits for, if any.
    pub(super) fn awaited_child(&self, slice: &Slice) -> Option<u32> {
        if slice.state != BLOCKED || self.kind(slice) != TimeKind::Child {
            return None;
        }
        let ended = (slice.other != 0 && slice.flags & INTERRUPT == 0).then_some(slice.other);
        ended.or_else(|| only_child(slice.tgid, self.root))
    }

    /// Whether the slice is a sleep for a period.
    fn is_timed(&self, slice: &Slice) -> bool {
        let is_one = |name: &str| SLEEPS_FOR_A_TIME.iter().any(|prefix| name.starts_with(prefix));
        let stack = self.stacks.get(&slice.stack);
        stack.is_some_and(|stack| {
            stack.kernel.iter().any(|address| self.symbols.find(*address).is_some_and(|(name, _)| is_one(name)))
        })
    }

    /// Returns the peer that owes an answer to a UDP datagram, if the slice waits on the socket that the datagram was sent from.
    fn owes_answer(&self, slice: &Slice) -> Option<&Peer> {
        let (_, destination) = self.destinations.get(&slice.peer)?;
        let socket = match self.files.get(slice.tgid, slice.first) {
            Some(OpenFile::Socket(inode)) => *inode,
            _ => return None,
        };
        let port = self.peers.udp_port(socket);
        let is_sender = port.is_none_or(|port| port == destination.local_port);
        self.peers.destination(slice.peer, slice.flags & SERVES != 0).filter(|_| is_sender)
    }
}

#[derive(Clone, Debug, Default)]
struct Sum {
    ns: u64,
    times: u64,
    /// By kind, name and PID.
    by: BTreeMap<(String, String, Option<u32>), u64>,
    functions: BTreeMap<String, u64>,
    /// Functions that released the awaited locks.
    released: BTreeMap<String, u64>,
    /// By process.
    processes: BTreeMap<u32, u64>,
}

/// Sums of the time of a group of processes.
pub(super) struct PartSums<'a> {
    sources: &'a Sources<'a>,
    /// The processes whose times are summed: their waits for each other are not a loss of their own.
    members: &'a BTreeSet<u32>,
    awaited: &'a BTreeSet<u32>,
    sums: BTreeMap<TimeKind, Sum>,
    on_cpu: Spent,
    /// By process.
    ran: BTreeMap<u32, u64>,
    /// Samples in user space and in the kernel: their number, and the time that they represent.
    samples: [Spent; 2],
}

impl<'a> PartSums<'a> {
    /// Creates sums for the processes `members`. The main threads of `awaited` do not count as idle while they sleep.
    pub(super) fn new(sources: &'a Sources<'a>, members: &'a BTreeSet<u32>, awaited: &'a BTreeSet<u32>) -> Self {
        let (sums, ran) = (BTreeMap::new(), BTreeMap::new());
        Self { sources, members, awaited, sums, on_cpu: Spent::default(), ran, samples: [Spent::default(); 2] }
    }

    pub(super) fn add(&mut self, slice: &Slice, spent: Spent) {
        match slice.state {
            ON_CPU => {
                self.on_cpu.add(spent);
                *self.ran.entry(slice.tgid).or_default() += spent.ns;
            }
            SAMPLE_USER | SAMPLE_KERNEL => {
                let kind = if slice.state == SAMPLE_USER { TimeKind::User } else { TimeKind::Kernel };
                self.samples[usize::from(kind == TimeKind::Kernel)].add(spent);
                let function = self.running_function(slice).unwrap_or_else(|| UNKNOWN.into());
                let sum = self.sums.entry(kind).or_default();
                *sum.functions.entry(function).or_default() += spent.ns;
                *sum.processes.entry(slice.tgid).or_default() += spent.ns;
            }
            QUEUED => {
                let by = (slice.other != 0).then(|| self.process(slice.other));
                self.add_wait(TimeKind::CpuWait, slice, spent, by, None);
            }
            BLOCKED => {
                let sources = self.sources;
                let kind = self.unless_idle(sources.kind(slice), slice, || sources.is_timed(slice));
                let function = self.waiting_function(kind, slice);
                self.add_blocked(kind, slice, spent, function);
            }
            UNSEEN => {
                let thread = u32::try_from(slice.first).ok().and_then(|tid| self.sources.first_threads.get(&tid));
                let first = Slice { first: thread.map_or(-1, |thread| thread.wanted.file), ..*slice };
                let kind = thread.map_or(TimeKind::Other, |thread| self.first_kind(thread, &first));
                self.add_blocked(kind, &first, spent, None);
            }
            _ => {}
        }
    }

    /// Adds a thread that has stayed in one state. `holder` has the lock that it waits for: a process, and its thread if that
    /// belongs to the same process.
    pub(super) fn add_still(&mut self, tid: u32, thread: &FirstThread, holder: Option<(u32, u32)>, ns: u64) {
        let spent = Spent { ns, times: 1 };
        if thread.runs {
            self.on_cpu.add(spent);
            *self.ran.entry(thread.tgid).or_default() += ns;
            return;
        }
        let (tgid, first) = (thread.tgid, thread.wanted.file);
        let (other, other_thread) = holder.unwrap_or_default();
        let flags = if tid == tgid { MAIN } else { 0 };
        let still = Slice { tgid, first, state: BLOCKED, other, other_thread, flags, ..Slice::default() };
        self.add_blocked(self.first_kind(thread, &still), &still, spent, None);
    }

    fn first_kind(&self, thread: &FirstThread, slice: &Slice) -> TimeKind {
        let is_timed = || {
            let begins = |name: &String| SLEEPS_FOR_A_TIME.iter().any(|prefix| name.starts_with(prefix));
            thread.functions.iter().any(begins)
        };
        self.unless_idle(self.sources.first_kind(thread, slice), slice, is_timed)
    }

    /// Reclassifies the sleep of a process that others wait for: it is a pause, not a lack of work.
    fn unless_idle(&self, kind: TimeKind, slice: &Slice, is_timed: impl Fn() -> bool) -> TimeKind {
        let is_awaited = kind == TimeKind::Sleep && slice.flags & MAIN != 0 && self.awaited.contains(&slice.tgid);
        if is_awaited && is_timed() { TimeKind::Pause } else { kind }
    }

    /// Adds a wait. If it looks idle, the share that a server's title shows as waiting for a lock counts as a lock wait.
    fn add_blocked(&mut self, kind: TimeKind, slice: &Slice, spent: Spent, function: Option<String>) {
        let titles = self.sources.titles;
        let of = |share: f64| Spent { ns: (spent.ns as f64 * share) as u64, times: spent.times };
        let locked = if matches!(kind, TimeKind::Poll | TimeKind::Ipc | TimeKind::Futex) {
            titles.waiting(slice.tgid)
        } else {
            0.0
        };
        if locked > 0.0 {
            let by = titles.holder(slice.tgid).map(|pid| self.process(pid));
            self.add_wait(TimeKind::Lock, slice, of(locked), by, function.clone());
        }
        if locked < 1.0 {
            self.add_wait(kind, slice, of(1.0 - locked), self.contributor(kind, slice), function);
        }
    }

    fn add_wait(
        &mut self,
        kind: TimeKind,
        slice: &Slice,
        spent: Spent,
        by: Option<(String, String, Option<u32>)>,
        function: Option<String>,
    ) {
        let released = self.releasing_function(slice);
        let sum = self.sums.entry(kind).or_default();
        sum.ns += spent.ns;
        sum.times += spent.times;
        *sum.processes.entry(slice.tgid).or_default() += spent.ns;
        if let Some(released) = released {
            *sum.released.entry(released).or_default() += spent.ns;
        }
        if let Some(by) = by {
            *sum.by.entry(by).or_default() += spent.ns;
        }
        if let Some(function) = function {
            *sum.functions.entry(function).or_default() += spent.ns;
        }
    }

    fn contributor(&self, kind: TimeKind, slice: &Slice) -> Option<(String, String, Option<u32>)> {
        let file = self.sources.files.get(slice.tgid, slice.first);
        if kind.is_disk() || kind == TimeKind::PageFault {
            let of_file = match file {
                Some(OpenFile::Path { device, .. }) if kind != TimeKind::PageFault => Some(device.clone()),
                _ => None,
            };
            let sent_to = (slice.device != 0).then(|| self.device(slice.device)).flatten();
            return sent_to.or(of_file).map(|name| ("device".into(), name, None));
        }
        // The writer that woke a reader of a pipe, or the reverse, is known already.
        let is_known = kind == TimeKind::Pipe && slice.other != 0 && slice.flags & INTERRUPT == 0;
        if let Some(file) = file
            && !is_known
            && matches!(kind, TimeKind::Receive | TimeKind::Send | TimeKind::Connect | TimeKind::Pipe)
            && let Some(peer) = self.sources.peers.peer(file)
        {
            // The process that sent a datagram to a Unix socket.
            let sender = (peer.is_client && peer.pid.is_none() && slice.flags & INTERRUPT == 0).then_some(slice.other);
            return match sender.filter(|&sender| sender != 0) {
                Some(sender) => Some(self.client(Some(sender), None)),
                None => self.peer(peer),
            };
        }
        if kind == TimeKind::Receive
            && let Some(peer) = self.sources.owes_answer(slice)
        {
            return self.peer(peer);
        }
        if kind == TimeKind::Poll && slice.other == 0 {
            return self.sources.peers.partner(slice.tgid).and_then(|peer| self.peer(peer));
        }
        if kind == TimeKind::Child && slice.other == 0 {
            return only_child(slice.tgid, self.sources.root).map(|child| self.process(child));
        }
        // A command that this program terminated was woken by its signal.
        let ended_here = slice.other == std::process::id() && slice.other != slice.tgid;
        if !kind.is_for_others() || slice.other == 0 || ended_here {
            return None;
        }
        if slice.flags & INTERRUPT != 0 {
            // The process that a packet interrupted need not be its sender.
            let of_sockets = matches!(kind, TimeKind::Poll | TimeKind::Receive | TimeKind::Send);
            let serves = if of_sockets { self.sources.peers.serves(slice.tgid, slice.other)? } else { return None };
            return Some(if serves { self.client(Some(slice.other), None) } else { self.process(slice.other) });
        }
        if slice.other_thread != 0 {
            let path = format!("proc/{}/task/{}/comm", slice.other, slice.other_thread);
            let name = self.sources.names.get(&slice.other_thread).cloned().or_else(|| self.sources.root.word(&path));
            let name = name.unwrap_or_else(|| "an ended thread".into());
            return Some(("thread".into(), name, Some(slice.other_thread)));
        }
        // Threads of the same process hand work to each other.
        (slice.other != slice.tgid).then(|| self.process(slice.other))
    }

    fn process(&self, pid: u32) -> (String, String, Option<u32>) {
        let name = self.sources.names.get(&pid).cloned();
        let name = name.or_else(|| self.sources.root.word(&format!("proc/{pid}/comm")));
        let kind = if self.members.contains(&pid) { "member" } else { "process" };
        (kind.into(), name.unwrap_or_else(|| "an ended process".into()), Some(pid))
    }

    fn peer(&self, peer: &Peer) -> Option<(String, String, Option<u32>)> {
        match (peer.pid, &peer.address, peer.is_client) {
            (pid, address, true) => Some(self.client(pid, address.as_deref())),
            (Some(pid), _, false) => Some(self.process(pid)),
            (None, Some(address), false) => Some(("peer".into(), address.clone(), None)),
            (None, None, false) => None,
        }
    }

    /// Describes a client by its process or address.
    fn client(&self, pid: Option<u32>, address: Option<&str>) -> (String, String, Option<u32>) {
        let name = pid.map_or_else(|| address.unwrap_or("unknown").to_owned(), |pid| self.process(pid).1);
        ("client".into(), name, pid)
    }

    /// Names a disk or partition by the kernel's device number (include/linux/kdev_t.h).
    fn device(&self, number: u32) -> Option<String> {
        device_name(&format!("{}:{}", number >> 20, number & 0xf_ffff), self.sources.root)
    }

    /// Returns the running function.
    fn running_function(&self, slice: &Slice) -> Option<String> {
        let (user, kernel) = self.frames(slice, ProfileKind::OnCpu)?;
        let of_program = innermost(&user);
        let of_kernel = innermost(&kernel);
        let found = if slice.state == SAMPLE_KERNEL { of_kernel.or(of_program) } else { of_program.or(of_kernel) };
        found.or_else(|| file_of(&user))
    }

    /// Returns the program's function that waits, or the kernel's if there is none and the kind of the wait is vague.
    fn waiting_function(&self, kind: TimeKind, slice: &Slice) -> Option<String> {
        let (user, kernel) = self.frames(slice, ProfileKind::OffCpu)?;
        let of_program = user.iter().rev().filter(|frame| !is_libc(frame)).find_map(|frame| frame.function.clone());
        let says_little = matches!(
            kind,
            TimeKind::Other | TimeKind::KernelLock | TimeKind::BlockIo | TimeKind::Write | TimeKind::Reclaim
        );
        let instead = || says_little.then(|| innermost(&kernel).or_else(|| file_of(&user))).flatten();
        of_program.or_else(instead)
    }

    /// Returns the program's function that released the awaited lock.
    fn releasing_function(&self, slice: &Slice) -> Option<String> {
        let stack = self.sources.stacks.get(&slice.released)?;
        let frames = user_frames(stack, self.sources.symbolizer?);
        frames.iter().rev().filter(|frame| !is_libc(frame)).find_map(|frame| frame.function.clone())
    }

    /// Returns the user and kernel frames, outermost first.
    fn frames(&self, slice: &Slice, kind: ProfileKind) -> Option<(Vec<Frame>, Vec<Frame>)> {
        let stack = self.sources.stacks.get(&slice.stack)?;
        let symbolizer = self.sources.symbolizer?;
        Some((user_frames(stack, symbolizer), kernel_frames(kind, stack, symbolizer)))
    }

    /// Returns the number of samples.
    pub(super) fn samples(&self) -> u64 {
        self.samples.iter().map(|samples| samples.times).sum()
    }

    /// Returns the parts, longest first, as shares of `lived` nanoseconds.
    pub(super) fn finish(mut self, lived: u64) -> Vec<TimePart> {
        let [user, kernel] = self.samples.map(|samples| samples.ns);
        // Without a sample it ran too briefly for a split.
        let in_kernel = if user + kernel == 0 { 0.0 } else { kernel as f64 / (user + kernel) as f64 };
        let kernel_ns = (self.on_cpu.ns as f64 * in_kernel) as u64;
        for (kind, ns) in [(TimeKind::User, self.on_cpu.ns - kernel_ns), (TimeKind::Kernel, kernel_ns)] {
            let sum = self.sums.entry(kind).or_default();
            (sum.ns, sum.times) = (ns, self.on_cpu.times);
            if sum.processes.is_empty() {
                sum.processes.clone_from(&self.ran);
            }
        }
        let sources = self.sources;
        if self.samples.iter().map(|samples| samples.times).sum::<u64>() < FEW_SAMPLES {
            for kind in [TimeKind::User, TimeKind::Kernel] {
                self.sums.entry(kind).or_default().functions.clear();
            }
        }
        let sums = self.sums.into_iter().filter(|(_, sum)| sum.ns > 0);
        let mut parts: Vec<TimePart> = sums.map(|(kind, sum)| sum.part(kind, lived, sources.names)).collect();
        parts.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let programs: BTreeSet<&str> =
            parts.iter().flat_map(|part| &part.programs).map(|one| one.name.as_str()).collect();
        if programs.len() < 2 {
            parts.iter_mut().for_each(|part| part.programs.clear());
        }
        parts
    }
}

impl Sum {
    fn part(self, kind: TimeKind, lived: u64, names: &BTreeMap<u32, String>) -> TimePart {
        let share = |ns: u64| ns as f64 / self.ns.max(1) as f64;
        let by = by_name(self.by, kind).into_iter();
        let mut by: Vec<Contributor> =
            by.map(|((kind, name, pid), ns)| Contributor { kind, name, pid, share: share(ns) }).collect();
        by.sort_by(|a, b| b.share.total_cmp(&a.share));
        by.truncate(KEPT);
        let mut programs: BTreeMap<String, u64> = BTreeMap::new();
        for (pid, ns) in &self.processes {
            let name = names.get(pid).map_or("an ended process", String::as_str);
            *programs.entry(name.to_owned()).or_default() += ns;
        }
        TimePart {
            kind,
            seconds: self.ns as f64 / 1e9,
            share: self.ns as f64 / lived.max(1) as f64,
            times: self.times,
            by,
            functions: shares(self.functions),
            released_in: shares(self.released),
            programs: shares(programs),
        }
    }
}

/// Merges contributors of one name: members, and children, of which there may be hundreds. The PID is that of the largest, if it
/// has most of the time.
fn by_name(
    by: BTreeMap<(String, String, Option<u32>), u64>,
    kind: TimeKind,
) -> BTreeMap<(String, String, Option<u32>), u64> {
    let mut kept = BTreeMap::new();
    let mut together: BTreeMap<(String, String), (u64, u64, Option<u32>)> = BTreeMap::new();
    for ((of, name, pid), ns) in by {
        if of != "member" && !(of == "process" && kind == TimeKind::Child) {
            kept.insert((of, name, pid), ns);
            continue;
        }
        let (sum, most, whose) = together.entry((of, name)).or_default();
        *sum += ns;
        if ns > *most {
            (*most, *whose) = (ns, pid);
        }
    }
    let named =
        together.into_iter().map(|((of, name), (sum, most, pid))| ((of, name, pid.filter(|_| most * 2 > sum)), sum));
    kept.extend(named);
    kept
}

/// Returns the largest ones, as shares of their sum.
fn shares(weights: BTreeMap<String, u64>) -> Vec<FunctionShare> {
    let sum: u64 = weights.values().sum();
    let share = |(name, weight)| FunctionShare { name, share: weight as f64 / sum.max(1) as f64 };
    let mut shares: Vec<FunctionShare> = weights.into_iter().map(share).collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    shares.truncate(KEPT);
    shares
}

/// Returns the innermost function with a name.
fn innermost(frames: &[Frame]) -> Option<String> {
    frames.iter().rev().find_map(|frame| frame.function.clone())
}

/// Returns the file of the innermost code, for stacks in which no function has a name.
fn file_of(frames: &[Frame]) -> Option<String> {
    let file = frames.last()?.module.as_deref()?;
    Some(format!("[{}]", file.rsplit('/').next().unwrap_or(file)))
}

impl FirstThread {
    /// Whether it waited for any of several files.
    pub(super) fn polls(&self) -> bool {
        self.reason() == Some(TimeKind::Poll) && self.wanted.polled.is_none()
    }

    pub(super) fn waits_for_child(&self) -> bool {
        self.reason() == Some(TimeKind::Child)
    }

    fn reason(&self) -> Option<TimeKind> {
        wait_reason(self.functions.iter().map(String::as_str))
    }
}
