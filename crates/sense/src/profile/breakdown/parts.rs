//! Sums slices of time up into parts: what was done, by whom or what, and in which functions.

use super::files::{OpenFile, OpenFiles, Peer, Peers, device_name};
use super::titles::LockTitles;
use super::{BLOCKED, FirstThread, INTERRUPT, LOCK, ON_CPU, QUEUED, SAMPLE_KERNEL, SAMPLE_USER, Slice, Spent, UNSEEN};
use crate::profile::assemble::{is_libc, kernel_frames, user_frames};
use crate::profile::recorder::RawStack;
use crate::profile::symbolizer::Symbolizer;
use crate::root::Root;
use crate::task::{WaitFunctions, wait_reason};
use std::collections::{BTreeMap, HashMap};
use whyslow_model::profile::{Frame, ProfileKind};
use whyslow_model::time_breakdown::{Contributor, FunctionShare, TimeKind, TimePart, UNKNOWN};

/// How many contributors and functions of a part are kept.
const KEPT: usize = 20;

/// What slices are explained with.
pub(super) struct Sources<'a> {
    pub(super) root: &'a Root,
    pub(super) functions: &'a WaitFunctions,
    pub(super) stacks: &'a HashMap<u64, RawStack>,
    pub(super) symbolizer: &'a Symbolizer<'a>,
    pub(super) files: &'a OpenFiles,
    pub(super) peers: &'a Peers,
    pub(super) titles: &'a LockTitles,
    pub(super) names: &'a BTreeMap<u32, String>,
    pub(super) first_threads: &'a HashMap<u32, FirstThread>,
}

#[derive(Clone, Debug, Default)]
struct Sum {
    ns: u64,
    times: u64,
    /// By kind, name and number.
    by: BTreeMap<(String, String, Option<u32>), u64>,
    functions: BTreeMap<String, u64>,
}

/// The time of a group of processes, summed up.
pub(super) struct PartSums<'a> {
    sources: &'a Sources<'a>,
    sums: BTreeMap<TimeKind, Sum>,
    on_cpu: Spent,
    samples: [u64; 2],
}

impl<'a> PartSums<'a> {
    pub(super) fn new(sources: &'a Sources<'a>) -> Self {
        Self { sources, sums: BTreeMap::new(), on_cpu: Spent::default(), samples: [0; 2] }
    }

    pub(super) fn add(&mut self, slice: &Slice, spent: Spent) {
        match slice.state {
            ON_CPU => {
                self.on_cpu.ns += spent.ns;
                self.on_cpu.times += spent.times;
            }
            SAMPLE_USER | SAMPLE_KERNEL => {
                let kind = if slice.state == SAMPLE_USER { TimeKind::User } else { TimeKind::Kernel };
                self.samples[usize::from(kind == TimeKind::Kernel)] += spent.times;
                let function = self.running_function(slice).unwrap_or_else(|| UNKNOWN.into());
                let functions = &mut self.sums.entry(kind).or_default().functions;
                *functions.entry(function).or_default() += spent.times;
            }
            QUEUED => {
                let by = (slice.other != 0).then(|| self.process(slice.other));
                self.add_wait(TimeKind::CpuWait, spent, by, None);
            }
            BLOCKED => {
                let kind = self.kind(slice);
                let function = self.waiting_function(kind, slice);
                self.add_blocked(kind, slice, spent, function);
            }
            UNSEEN => {
                let thread = u32::try_from(slice.first).ok().and_then(|tid| self.sources.first_threads.get(&tid));
                let kind = thread.and_then(FirstThread::waits_for).unwrap_or(TimeKind::Other);
                let first = thread.map_or(-1, |thread| thread.first);
                self.add_blocked(kind, &Slice { first, ..*slice }, spent, None);
            }
            _ => {}
        }
    }

    /// A thread that has done nothing but stay in one state. `owner` is the thread that holds the lock it waits for.
    pub(super) fn add_still(&mut self, thread: &FirstThread, owner: Option<u32>, ns: u64) {
        let spent = Spent { ns, times: 1 };
        if thread.runs {
            self.on_cpu.ns += ns;
        } else {
            let kind = thread.waits_for().unwrap_or(TimeKind::Other);
            let (tgid, first) = (thread.tgid, thread.first);
            let (other, other_thread) = owner.map_or((0, 0), |owner| (tgid, owner));
            let still = Slice { tgid, first, state: BLOCKED, other, other_thread, ..Slice::default() };
            self.add_blocked(kind, &still, spent, None);
        }
    }

    /// A wait; of one that looks idle, what a server's title says was a wait for a lock.
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
            self.add_wait(TimeKind::Lock, of(locked), by, function.clone());
        }
        if locked < 1.0 {
            self.add_wait(kind, of(1.0 - locked), self.contributor(kind, slice), function);
        }
    }

    fn add_wait(
        &mut self,
        kind: TimeKind,
        spent: Spent,
        by: Option<(String, String, Option<u32>)>,
        function: Option<String>,
    ) {
        let sum = self.sums.entry(kind).or_default();
        sum.ns += spent.ns;
        sum.times += spent.times;
        if let Some(by) = by {
            *sum.by.entry(by).or_default() += spent.ns;
        }
        if let Some(function) = function {
            *sum.functions.entry(function).or_default() += spent.ns;
        }
    }

    fn kind(&self, slice: &Slice) -> TimeKind {
        let stack = self.sources.stacks.get(&slice.stack);
        let kind = stack.and_then(|stack| self.sources.functions.reason(stack.kernel.iter().copied()));
        match kind {
            Some(TimeKind::Futex) if slice.flags & LOCK != 0 => TimeKind::Lock,
            Some(kind) => kind,
            None => TimeKind::Other,
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
            && let Some(peer) = self.sources.peers.of(file)
        {
            return self.peer(peer);
        }
        if kind == TimeKind::Poll && slice.other == 0 {
            return self.sources.peers.partner(slice.tgid).and_then(|peer| self.peer(peer));
        }
        if kind == TimeKind::Child && slice.other == 0 {
            return self.only_child(slice.tgid);
        }
        if kind == TimeKind::FileLock && slice.other == 0 {
            return lock_holder(slice.tgid, self.sources.root).map(|pid| self.process(pid));
        }
        // A command that this program ended was woken by its signal.
        let ended_here = slice.other == std::process::id() && slice.other != slice.tgid;
        if !kind.is_for_others() || slice.other == 0 || ended_here {
            return None;
        }
        if slice.flags & INTERRUPT != 0 {
            // The process that a packet interrupted need not be the one that sent it.
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
        // Its own threads hand work to each other.
        (slice.other != slice.tgid).then(|| self.process(slice.other))
    }

    fn process(&self, pid: u32) -> (String, String, Option<u32>) {
        let name = self.sources.names.get(&pid).cloned();
        let name = name.or_else(|| self.sources.root.word(&format!("proc/{pid}/comm")));
        ("process".into(), name.unwrap_or_else(|| "an ended process".into()), Some(pid))
    }

    /// The child that a process waits for, if it has only one (proc_pid_task_tid_children(5)).
    fn only_child(&self, pid: u32) -> Option<(String, String, Option<u32>)> {
        let children = self.sources.root.maybe(&format!("proc/{pid}/task/{pid}/children"))?;
        let mut pids = children.split_ascii_whitespace().map(str::parse);
        match (pids.next(), pids.next()) {
            (Some(Ok(child)), None) => Some(self.process(child)),
            _ => None,
        }
    }

    fn peer(&self, peer: &Peer) -> Option<(String, String, Option<u32>)> {
        match (peer.pid, &peer.address, peer.is_client) {
            (pid, address, true) => Some(self.client(pid, address.as_deref())),
            (Some(pid), _, false) => Some(self.process(pid)),
            (None, Some(address), false) => Some(("peer".into(), address.clone(), None)),
            (None, None, false) => None,
        }
    }

    /// A client, by its process or address.
    fn client(&self, pid: Option<u32>, address: Option<&str>) -> (String, String, Option<u32>) {
        let name = pid.map_or_else(|| address.unwrap_or("unknown").to_owned(), |pid| self.process(pid).1);
        ("client".into(), name, pid)
    }

    /// A disk or partition by its number as the kernel has it (include/linux/kdev_t.h).
    fn device(&self, number: u32) -> Option<String> {
        device_name(&format!("{}:{}", number >> 20, number & 0xf_ffff), self.sources.root)
    }

    /// The function that runs.
    fn running_function(&self, slice: &Slice) -> Option<String> {
        let (user, kernel) = self.frames(slice, ProfileKind::OnCpu)?;
        let of_program = innermost(&user);
        let of_kernel = innermost(&kernel);
        let found = if slice.state == SAMPLE_KERNEL { of_kernel.or(of_program) } else { of_program.or(of_kernel) };
        found.or_else(|| file_of(&user))
    }

    /// The program's function that waits; the kernel's only where the kind of the wait does not tell as much.
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

    /// User and kernel frames, outermost first.
    fn frames(&self, slice: &Slice, kind: ProfileKind) -> Option<(Vec<Frame>, Vec<Frame>)> {
        let stack = self.sources.stacks.get(&slice.stack)?;
        Some((user_frames(stack, self.sources.symbolizer), kernel_frames(kind, stack, self.sources.symbolizer)))
    }

    /// The parts, longest first, as shares of `lived` nanoseconds.
    pub(super) fn finish(mut self, lived: u64) -> Vec<TimePart> {
        let [user, kernel] = self.samples;
        // Without a sample it ran too little to tell.
        let in_kernel = if user + kernel == 0 { 0.0 } else { kernel as f64 / (user + kernel) as f64 };
        let kernel_ns = (self.on_cpu.ns as f64 * in_kernel) as u64;
        for (kind, ns) in [(TimeKind::User, self.on_cpu.ns - kernel_ns), (TimeKind::Kernel, kernel_ns)] {
            let sum = self.sums.entry(kind).or_default();
            (sum.ns, sum.times) = (ns, self.on_cpu.times);
        }
        let mut parts: Vec<TimePart> =
            self.sums.into_iter().filter(|(_, sum)| sum.ns > 0).map(|(kind, sum)| sum.part(kind, lived)).collect();
        parts.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        parts
    }
}

impl Sum {
    fn part(self, kind: TimeKind, lived: u64) -> TimePart {
        let samples: u64 = self.functions.values().sum();
        let mut by: Vec<Contributor> = self
            .by
            .into_iter()
            .map(|((kind, name, pid), ns)| Contributor { kind, name, pid, share: ns as f64 / self.ns.max(1) as f64 })
            .collect();
        by.sort_by(|a, b| b.share.total_cmp(&a.share));
        by.truncate(KEPT);
        let mut functions: Vec<FunctionShare> = self
            .functions
            .into_iter()
            .map(|(name, weight)| FunctionShare { name, share: weight as f64 / samples.max(1) as f64 })
            .collect();
        functions.sort_by(|a, b| b.share.total_cmp(&a.share));
        functions.truncate(KEPT);
        TimePart {
            kind,
            seconds: self.ns as f64 / 1e9,
            share: self.ns as f64 / lived.max(1) as f64,
            times: self.times,
            by,
            functions,
        }
    }
}

/// The innermost function with a name.
fn innermost(frames: &[Frame]) -> Option<String> {
    frames.iter().rev().find_map(|frame| frame.function.clone())
}

/// The file of the innermost code, where no function has a name.
fn file_of(frames: &[Frame]) -> Option<String> {
    let file = frames.last()?.module.as_deref()?;
    Some(format!("[{}]", file.rsplit('/').next().unwrap_or(file)))
}

/// The process that holds the file lock that another one waits for (proc_locks(5)): `1: -> FLOCK ADVISORY WRITE 4711 ...` waits for
/// what `1: FLOCK ADVISORY WRITE 4710 ...` has.
fn lock_holder(waiter: u32, root: &Root) -> Option<u32> {
    let text = root.maybe("proc/locks")?;
    let pid = |line: &str, at: usize| line.split_ascii_whitespace().nth(at)?.parse::<u32>().ok();
    let waits = |line: &&str| line.split_ascii_whitespace().nth(1) == Some("->");
    let line = text.lines().filter(waits).find(|line| pid(line, 5) == Some(waiter))?;
    let number = line.split(':').next()?;
    text.lines()
        .filter(|line| !waits(line))
        .find(|line| line.split(':').next() == Some(number))
        .and_then(|line| pid(line, 4))
}

impl FirstThread {
    /// Whether it waited for any of several files.
    pub(super) fn polls(&self) -> bool {
        self.waits_for() == Some(TimeKind::Poll)
    }

    fn waits_for(&self) -> Option<TimeKind> {
        if self.lock.is_some() {
            return Some(TimeKind::Lock);
        }
        wait_reason(self.functions.iter().map(String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_file_lock_has_the_number_of_the_one_that_waits() {
        let folder = whyslow_testing::folder();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        let locks = "1: POSIX  ADVISORY  READ  11 fd:00:1:2 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 12 fd:00:1:3 0 EOF\n\
            2: -> FLOCK  ADVISORY  WRITE 13 fd:00:1:3 0 EOF\n\
            3: OFDLCK ADVISORY  WRITE -1 fd:00:1:4 0 EOF\n\
            3: -> OFDLCK ADVISORY  WRITE 14 fd:00:1:4 0 EOF\n";
        std::fs::write(folder.path().join("proc/locks"), locks).unwrap();
        let root = Root::captured(folder.path());
        assert_eq!([13, 12, 14, 99].map(|pid| lock_holder(pid, &root)), [Some(12), None, None, None]);
    }
}
