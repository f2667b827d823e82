//! Turns counted stacks into a profile: frames instead of addresses, equal stacks merged, incomplete stacks counted.

use super::ProfileOptions;
use super::recorder::{Counted, RawStack, USER_DEPTH};
use super::symbolizer::{Symbolizer, instructions};
use std::collections::HashMap;
use std::time::Duration;
use whyslow_documents::profile::{Frame, ProfileKind, ProfiledProcess, SCHEMA, Space, Stack, StackProfile, Totals};

/// Outermost functions of threads: those of glibc, the kernel's clone, musl and Go.
const ENTRY_POINTS: [&str; 12] = [
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

/// Functions between a tracepoint and the BPF program that records the stack (kernel/trace/bpf_trace.c,
/// include/trace/bpf_probe.h, kernel/bpf/trampoline.c). Their callees have no names if net.core.bpf_jit_kallsyms is 0.
const TRACING: [&str; 4] = ["bpf_trace_run", "__bpf_trace_", "__traceiter_", "bpf_trampoline_"];
/// Functions of the scheduler (kernel/sched/core.c, kernel/time/sleep_timeout.c).
const SCHEDULER: [&str; 3] = ["__schedule", "schedule", "io_schedule"];

pub(super) struct Assembly<'a> {
    options: &'a ProfileOptions,
    symbolizer: &'a Symbolizer<'a>,
    frames: Vec<Frame>,
    indices: HashMap<Frame, u32>,
    stacks: HashMap<(ProfiledProcess, Vec<u32>), u64>,
    totals: Totals,
}

impl<'a> Assembly<'a> {
    pub(super) fn new(options: &'a ProfileOptions, symbolizer: &'a Symbolizer<'a>) -> Self {
        let (frames, indices) = (Vec::new(), HashMap::new());
        Self { options, symbolizer, frames, indices, stacks: HashMap::new(), totals: Totals::default() }
    }

    pub(super) fn add(&mut self, raw: &RawStack) {
        let weight = match self.options.kind {
            ProfileKind::OnCpu => raw.weight,
            ProfileKind::OffCpu => microseconds(raw.weight),
        };
        if weight == 0 {
            return;
        }
        let user = user_frames(raw, self.symbolizer);
        if self.options.user && !raw.space.is_kernel_thread() {
            self.note_completeness(raw, &user, weight);
        }
        let frames = user.into_iter().chain(kernel_frames(self.options.kind, raw, self.symbolizer));
        let process = ProfiledProcess { pid: raw.space.pid(), name: raw.name.clone() };
        self.add_frames(process, frames, weight);
    }

    /// Adds a thread that waited in these kernel functions, innermost first, for the whole time.
    pub(super) fn add_sleeper(&mut self, process: &ProfiledProcess, functions: Vec<String>, nanoseconds: u64) {
        let weight = microseconds(nanoseconds);
        self.totals.programs = self.totals.programs.saturating_add(weight);
        self.totals.without_user_stack = self.totals.without_user_stack.saturating_add(weight);
        let frame = |name| Frame { function: Some(name), module: None, space: Space::Kernel, inlined: false };
        let frames = functions.into_iter().rev().map(frame).filter(|_| self.options.kernel).collect::<Vec<_>>();
        self.add_frames(process.clone(), frames.into_iter(), weight);
    }

    fn add_frames(&mut self, process: ProfiledProcess, frames: impl Iterator<Item = Frame>, weight: u64) {
        let frames: Vec<u32> = frames.map(|frame| self.index(frame)).collect();
        let sum = self.stacks.entry((process, frames)).or_default();
        *sum = sum.saturating_add(weight);
    }

    /// Counts incomplete user stacks.
    fn note_completeness(&mut self, raw: &RawStack, user: &[Frame], weight: u64) {
        self.totals.programs = self.totals.programs.saturating_add(weight);
        let missing = if raw.user.is_empty() {
            &mut self.totals.without_user_stack
        } else if !self.symbolizer.has_mappings(raw.space) {
            &mut self.totals.unplaced
        } else if raw.user.len() >= USER_DEPTH || !reaches_entry_point(user) {
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

    /// Returns the profile without its blind spots. `cpus` is the number of CPUs sampled.
    pub(super) fn finish(
        mut self,
        counted: Counted,
        process: Option<ProfiledProcess>,
        watched: Duration,
        cpus: Option<u32>,
    ) -> StackProfile {
        self.totals.lost = counted.lost;
        // In a profile of one process it is unknown when a CPU was idle because of that process.
        self.totals.idle = (cpus.is_some() && process.is_none()).then_some(counted.idle);
        StackProfile {
            schema: SCHEMA.into(),
            kind: self.options.kind,
            process,
            finding: None,
            seconds: watched.as_secs_f64(),
            hz: cpus.map(|_| self.options.hz),
            cpus,
            totals: self.totals,
            frames: self.frames,
            stacks: heaviest_first(self.stacks),
            blind_spots: Vec::new(),
        }
    }
}

fn heaviest_first(stacks: HashMap<(ProfiledProcess, Vec<u32>), u64>) -> Vec<Stack> {
    let stack = |((process, frames), weight)| Stack { process, frames, weight };
    let mut stacks: Vec<Stack> = stacks.into_iter().map(stack).collect();
    stacks.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| (&a.process, &a.frames).cmp(&(&b.process, &b.frames))));
    stacks
}

/// Converts to microseconds, the unit of waits in folded stacks.
fn microseconds(nanoseconds: u64) -> u64 {
    nanoseconds.saturating_add(500) / 1000
}

/// Returns the user frames, outermost first.
pub(super) fn user_frames(raw: &RawStack, symbolizer: &Symbolizer<'_>) -> Vec<Frame> {
    let placed = instructions(&raw.user).map(|address| symbolizer.user(raw.space, address));
    let mut placed: Vec<Option<Vec<Frame>>> = placed.collect();
    // Beyond the last caller with a frame pointer the kernel interprets unrelated data as one.
    let end = placed.iter().rposition(Option::is_some).map_or(1, |last| last + 1);
    placed.truncate(end);
    let unknown = Frame { function: None, module: None, space: Space::User, inlined: false };
    let mut frames: Vec<Frame> =
        placed.into_iter().rev().flat_map(|functions| functions.unwrap_or_else(|| vec![unknown.clone()])).collect();
    frames.drain(..frames_before_entry_point(&frames));
    frames
}

/// Counts the frames outside of the entry point, if one is found: they are garbage, because only entry points call one another.
fn frames_before_entry_point(frames: &[Frame]) -> usize {
    let Some(mut outermost) = frames.iter().rposition(is_entry_point) else { return 0 };
    while outermost > 0 && is_entry_point(&frames[outermost - 1]) {
        outermost -= 1;
    }
    outermost
}

fn is_entry_point(frame: &Frame) -> bool {
    frame.function.as_deref().is_some_and(|name| ENTRY_POINTS.contains(&name))
}

/// Returns the kernel frames, outermost first. For waits, omits the scheduler, in which every wait ends.
pub(super) fn kernel_frames(kind: ProfileKind, raw: &RawStack, symbolizer: &Symbolizer<'_>) -> Vec<Frame> {
    let mut frames: Vec<Frame> = instructions(&raw.kernel).rev().map(|address| symbolizer.kernel(address)).collect();
    if kind == ProfileKind::OffCpu {
        let named = |frame: &Frame, prefixes: &[&str]| {
            let name = frame.function.as_deref().unwrap_or_default();
            prefixes.iter().any(|prefix| name.starts_with(prefix))
        };
        let recorded = frames.iter().position(|frame| named(frame, &TRACING));
        frames.truncate(recorded.unwrap_or(frames.len()));
        while frames.last().is_some_and(|frame| named(frame, &SCHEDULER)) {
            frames.pop();
        }
    }
    frames
}

/// Whether a stack is complete. A C library without symbols is recognized by its file: it calls the program, so in a complete
/// stack its frame is the outermost one, with the program inside.
fn reaches_entry_point(user: &[Frame]) -> bool {
    let nameless_libc = |frame: &Frame| frame.function.is_none() && is_libc(frame);
    user.iter().any(is_entry_point)
        || user.first().is_some_and(nameless_libc) && user.iter().any(|frame| !is_libc(frame))
}

pub(super) fn is_libc(frame: &Frame) -> bool {
    let name = frame.module.as_deref().and_then(|path| path.rsplit('/').next()).unwrap_or_default();
    ["libc.so", "libc-2", "libpthread", "ld-musl", "ld-linux"].iter().any(|prefix| name.starts_with(prefix))
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
    fn frames_outside_of_the_entry_point_are_dropped() {
        let outside = |names: &[&str]| frames_before_entry_point(&frames(names));
        assert_eq!(outside(&["_start", "__libc_start_main", "main"]), 0);
        assert_eq!(outside(&["register_tm_clones", "__libc_start_call_main", "main"]), 1);
        assert_eq!(outside(&["clone3", "main", "start_thread", "work"]), 2);
        assert_eq!((outside(&["main", "work"]), outside(&[])), (0, 0));
    }

    #[test]
    fn a_stack_is_complete_if_it_reaches_the_entry_point() {
        let complete = |names: &[&str]| reaches_entry_point(&frames(names));
        assert!(complete(&["_start", "main"]));
        assert!(complete(&["/lib/libc.so.6!", "main", "/lib/libc.so.6!read"]), "a C library without symbols");
        assert!(!complete(&["/lib/libc.so.6!", "/lib/libc.so.6!read"]), "nothing but the C library");
        assert!(!complete(&["/lib/libc.so.6!qsort", "compare"]));
        assert!(!complete(&["work"]));
        assert!(!complete(&[]));
    }
}
