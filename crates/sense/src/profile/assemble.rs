//! Counted stacks made a profile: frames instead of addresses, alike stacks merged, and what is missing counted.

use super::Ask;
use super::recorder::{Counted, RawStack, USER_DEPTH};
use super::symbolizer::{Names, instructions};
use std::collections::HashMap;
use std::time::Duration;
use whyslow_model::profile::{Frame, Kind, Process, Profile, SCHEMA, Space, Stack, Totals};

/// Where threads of programs begin: the C libraries' and the kernel's entries, Go's, and musl's.
const BEGINNINGS: [&str; 12] = [
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "start_thread",
    "clone",
    "__clone",
    "clone3",
    "__clone3",
    "_start_c",
    "runtime.goexit",
    "runtime.goexit.abi0",
];

/// What lies between a tracepoint and the BPF program that asks for the stack (kernel/trace/bpf_trace.c,
/// include/trace/bpf_probe.h, kernel/bpf/trampoline.c). What it calls has no names where net.core.bpf_jit_kallsyms is 0.
const TRACING: [&str; 4] = ["bpf_trace_run", "__bpf_trace_", "__traceiter_", "bpf_trampoline_"];
/// How one gets to the scheduler (kernel/sched/core.c, kernel/time/sleep_timeout.c).
const SCHEDULER: [&str; 3] = ["__schedule", "schedule", "io_schedule"];

/// A profile in the making.
pub(super) struct Assembly<'a> {
    ask: &'a Ask,
    names: &'a Names,
    frames: Vec<Frame>,
    indices: HashMap<Frame, u32>,
    stacks: HashMap<(Process, Vec<u32>), u64>,
    totals: Totals,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(ask: &'a Ask, names: &'a Names) -> Self {
        let (frames, indices) = (Vec::new(), HashMap::new());
        Self { ask, names, frames, indices, stacks: HashMap::new(), totals: Totals::default() }
    }

    /// Adds a stack as the kernel counted it.
    pub(super) fn add(&mut self, raw: &RawStack) {
        let weight = match self.ask.kind {
            Kind::OnCpu => raw.weight,
            Kind::OffCpu => microseconds(raw.weight),
        };
        if weight == 0 {
            return;
        }
        let user = user_half(raw, self.names);
        if self.ask.user && !raw.space.is_kernel_thread() {
            self.judge(raw, &user, weight);
        }
        let frames = user.into_iter().chain(kernel_half(self.ask.kind, raw, self.names));
        let process = Process { pid: raw.space.pid(), name: raw.name.clone() };
        self.put(process, frames, weight);
    }

    /// Adds a thread that waited from the beginning to the end, in these functions of the kernel, innermost first.
    pub(super) fn add_sleeper(&mut self, process: &Process, functions: Vec<String>, nanoseconds: u64) {
        let weight = microseconds(nanoseconds);
        self.totals.programs = self.totals.programs.saturating_add(weight);
        self.totals.without_user_stack = self.totals.without_user_stack.saturating_add(weight);
        let frame = |name| Frame { function: Some(name), module: None, space: Space::Kernel, inlined: false };
        let frames = functions.into_iter().rev().map(frame).filter(|_| self.ask.kernel).collect::<Vec<_>>();
        self.put(process.clone(), frames.into_iter(), weight);
    }

    fn put(&mut self, process: Process, frames: impl Iterator<Item = Frame>, weight: u64) {
        let frames: Vec<u32> = frames.map(|frame| self.index(frame)).collect();
        let sum = self.stacks.entry((process, frames)).or_default();
        *sum = sum.saturating_add(weight);
    }

    /// Counts how whole a program's stack is.
    fn judge(&mut self, raw: &RawStack, user: &[Frame], weight: u64) {
        self.totals.programs = self.totals.programs.saturating_add(weight);
        let missing = if raw.user.is_empty() {
            &mut self.totals.without_user_stack
        } else if !self.names.knows(raw.space) {
            &mut self.totals.unplaced
        } else if raw.user.len() >= USER_DEPTH || !reaches_its_beginning(user) {
            &mut self.totals.cut_short
        } else {
            return;
        };
        *missing = missing.saturating_add(weight);
    }

    fn index(&mut self, frame: Frame) -> u32 {
        if let Some(&index) = self.indices.get(&frame) {
            return index;
        }
        let index = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        self.frames.push(frame.clone());
        self.indices.insert(frame, index);
        index
    }

    /// The profile, its blind spots left to be told. `cpus` are the processors looked at, where samples were taken.
    pub(super) fn finish(
        mut self,
        counted: Counted,
        process: Option<Process>,
        watched: Duration,
        cpus: Option<u32>,
    ) -> Profile {
        self.totals.lost = counted.lost;
        // Of one process it would not be known when a processor was idle for it.
        self.totals.idle = (cpus.is_some() && process.is_none()).then_some(counted.idle);
        Profile {
            schema: SCHEMA.into(),
            kind: self.ask.kind,
            process,
            finding: None,
            seconds: watched.as_secs_f64(),
            hz: cpus.map(|_| self.ask.hz),
            cpus,
            totals: self.totals,
            frames: self.frames,
            stacks: heaviest_first(self.stacks),
            blind_spots: Vec::new(),
        }
    }
}

fn heaviest_first(stacks: HashMap<(Process, Vec<u32>), u64>) -> Vec<Stack> {
    let stack = |((process, frames), weight)| Stack { process, frames, weight };
    let mut stacks: Vec<Stack> = stacks.into_iter().map(stack).collect();
    stacks.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| (&a.process, &a.frames).cmp(&(&b.process, &b.frames))));
    stacks
}

/// What folded stacks count waits in.
fn microseconds(nanoseconds: u64) -> u64 {
    nanoseconds.saturating_add(500) / 1000
}

/// The program's frames, the outermost first.
fn user_half(raw: &RawStack, names: &Names) -> Vec<Frame> {
    let placed = instructions(&raw.user).map(|address| names.program(raw.space, address));
    let mut placed: Vec<Option<Vec<Frame>>> = placed.collect();
    // Beyond the last caller with a frame pointer the kernel takes whatever lies there for one more.
    let end = placed.iter().rposition(Option::is_some).map_or(1, |last| last + 1);
    placed.truncate(end);
    let unknown = Frame { function: None, module: None, space: Space::User, inlined: false };
    let mut frames: Vec<Frame> =
        placed.into_iter().rev().flat_map(|functions| functions.unwrap_or_else(|| vec![unknown.clone()])).collect();
    frames.drain(..beyond_the_beginning(&frames));
    frames
}

/// How many frames stand outside of where the thread began, where that is known: left-overs, as nothing calls a beginning but
/// another one.
fn beyond_the_beginning(frames: &[Frame]) -> usize {
    let Some(mut outermost) = frames.iter().rposition(is_beginning) else { return 0 };
    while outermost > 0 && is_beginning(&frames[outermost - 1]) {
        outermost -= 1;
    }
    outermost
}

fn is_beginning(frame: &Frame) -> bool {
    frame.function.as_deref().is_some_and(|name| BEGINNINGS.contains(&name))
}

/// The kernel's frames, the outermost first. Of a wait, up to what is waited in: the scheduler is where every wait ends.
fn kernel_half(kind: Kind, raw: &RawStack, names: &Names) -> Vec<Frame> {
    let mut frames: Vec<Frame> = instructions(&raw.kernel).rev().map(|address| names.kernel(address)).collect();
    if kind == Kind::OffCpu {
        let named = |frame: &Frame, beginnings: &[&str]| {
            let name = frame.function.as_deref().unwrap_or_default();
            beginnings.iter().any(|beginning| name.starts_with(beginning))
        };
        let recorded = frames.iter().position(|frame| named(frame, &TRACING));
        frames.truncate(recorded.unwrap_or(frames.len()));
        while frames.last().is_some_and(|frame| named(frame, &SCHEDULER)) {
            frames.pop();
        }
    }
    frames
}

/// Whether a stack goes back to where its thread began. A C library without symbols is known by its file: it calls the
/// program, so that of a whole stack its frame is the outermost, with the program inside.
fn reaches_its_beginning(user: &[Frame]) -> bool {
    let nameless_libc = |frame: &Frame| frame.function.is_none() && is_libc(frame);
    user.iter().any(is_beginning) || user.first().is_some_and(nameless_libc) && user.iter().any(|frame| !is_libc(frame))
}

fn is_libc(frame: &Frame) -> bool {
    let name = frame.module.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    ["libc.so", "libc-2", "libpthread", "ld-musl", "ld-linux"].iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[&str]) -> Vec<Frame> {
        let frame = |name: &&str| {
            let (module, function) = name.split_once('!').unwrap_or(("/bin/toy", name));
            let function = (!function.is_empty()).then(|| function.to_owned());
            Frame { function, module: Some(module.into()), space: Space::User, inlined: false }
        };
        names.iter().map(frame).collect()
    }

    #[test]
    fn what_lies_beyond_the_beginning_is_none_of_it() {
        let beyond = |names: &[&str]| beyond_the_beginning(&frames(names));
        assert_eq!(beyond(&["_start", "__libc_start_main", "main"]), 0);
        assert_eq!(beyond(&["register_tm_clones", "__libc_start_call_main", "main"]), 1);
        assert_eq!(beyond(&["clone3", "main", "start_thread", "work"]), 2);
        assert_eq!((beyond(&["main", "work"]), beyond(&[])), (0, 0));
    }

    #[test]
    fn a_stack_is_whole_where_it_reaches_its_beginning() {
        let whole = |names: &[&str]| reaches_its_beginning(&frames(names));
        assert!(whole(&["_start", "main"]));
        assert!(whole(&["/lib/libc.so.6!", "main", "/lib/libc.so.6!read"]), "a C library without symbols");
        assert!(!whole(&["/lib/libc.so.6!", "/lib/libc.so.6!read"]), "nothing but the C library");
        assert!(!whole(&["/lib/libc.so.6!qsort", "compare"]));
        assert!(!whole(&["work"]));
        assert!(!whole(&[]));
    }
}
