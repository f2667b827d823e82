//! A profile, `whyslow.profile/1`: weighted stacks of frames. Public interface, described in docs/profile.md: fields may be
//! added, existing ones do not change.

mod tree;

pub use tree::{CallNode, CallNodeLabel, CallTree};

use crate::diagnosis::BlindSpot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.profile/1";

/// Where the time of a process or of the machine went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StackProfile {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// What the weights count.
    pub kind: ProfileKind,
    /// The profiled process; `None` for the whole machine.
    pub process: Option<ProfiledProcess>,
    /// The key, `id@subject`, of the finding whose culprit the process is, if it was chosen by `--culprit`.
    pub finding: Option<String>,
    /// Duration, seconds.
    pub seconds: f64,
    /// Samples per second on each CPU; `None` if every wait was recorded.
    pub hz: Option<u32>,
    /// CPUs sampled; `None` if every wait was recorded.
    pub cpus: Option<u32>,
    /// What the stacks do not contain, and how complete they are.
    pub totals: Totals,
    /// The functions that occur in stacks.
    pub frames: Vec<Frame>,
    /// The stacks, heaviest first; each occurs once.
    pub stacks: Vec<Stack>,
    /// What could not be observed.
    pub blind_spots: Vec<BlindSpot>,
}

/// The unit of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProfileKind {
    /// Samples on a CPU.
    OnCpu,
    /// Microseconds off the CPU, from blocking to running again.
    OffCpu,
}

/// A process by PID and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct ProfiledProcess {
    /// The PID.
    pub pid: u32,
    /// Its name (`comm`).
    pub name: String,
}

/// Weights outside of the stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// Samples in which a CPU was idle; `None` if waits were recorded.
    pub idle: Option<u64>,
    /// Number of samples or waits lost because the table of stacks was full.
    pub lost: u64,
    /// Weight of stacks of user processes, without kernel threads.
    pub programs: u64,
    /// The part of it without any user stack.
    pub without_user_stack: u64,
    /// The part of it with addresses that could not be resolved, as the process ended first.
    pub unplaced: u64,
    /// The part of it whose user stack does not reach the start of its thread: code without frame pointers, or a stack deeper
    /// than the kernel walks.
    pub cut_short: u64,
}

/// A function in a stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    /// Its name, demangled; `None` if no symbol covers the address.
    pub function: Option<String>,
    /// The file it was loaded from, as the process spells it, or the kernel module; `None` for the kernel itself and for
    /// anonymous memory.
    pub module: Option<String>,
    /// Kernel or user code.
    pub space: Space,
    /// Whether it was inlined into its caller; only debug information shows that.
    pub inlined: bool,
}

/// Kernel or user code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// Kernel code.
    Kernel,
    /// User code.
    User,
}

/// A call path and its weight.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Its process.
    pub process: ProfiledProcess,
    /// Indices into [`StackProfile::frames`], outermost caller first. Empty if the stack could not be read.
    pub frames: Vec<u32>,
    /// Samples or microseconds, as [`StackProfile::kind`] says.
    pub weight: u64,
}

/// The weight of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Index into [`StackProfile::frames`].
    pub frame: u32,
    /// Weight of the stacks that end in it (self).
    pub own: u64,
    /// Weight of the stacks that contain it (total), each counted once even if it recurses.
    pub total: u64,
}

impl StackProfile {
    /// Returns the total weight of all stacks.
    pub fn weight(&self) -> u64 {
        self.stacks.iter().fold(0, |sum, stack| sum.saturating_add(stack.weight))
    }

    /// Returns the average number of threads that were running (samples divided by those of one CPU) or waiting (time
    /// waited divided by the duration). `None` without duration.
    pub fn threads(&self) -> Option<f64> {
        let whole = match self.kind {
            ProfileKind::OnCpu => self.seconds * f64::from(self.hz?),
            ProfileKind::OffCpu => self.seconds * 1e6,
        };
        (whole > 0.0).then(|| self.weight() as f64 / whole)
    }

    /// Returns a frame by index; `None` if the document's index is invalid.
    pub fn frame(&self, index: u32) -> Option<&Frame> {
        self.frames.get(usize::try_from(index).ok()?)
    }

    /// Returns the frames of a stack, outermost caller first.
    pub fn frames_of<'a>(&'a self, stack: &'a Stack) -> impl DoubleEndedIterator<Item = &'a Frame> {
        stack.frames.iter().filter_map(|&index| self.frame(index))
    }

    /// Returns the weight of each function, largest self weight first.
    pub fn functions(&self) -> Vec<Share> {
        let mut shares: Vec<Share> =
            (0..).zip(&self.frames).map(|(frame, _)| Share { frame, own: 0, total: 0 }).collect();
        // The last stack in which each function was seen.
        let mut met = vec![None; shares.len()];
        for (number, stack) in self.stacks.iter().enumerate() {
            for (place, &frame) in stack.frames.iter().rev().enumerate() {
                let Some(share) = shares.get_mut(frame as usize) else { continue };
                if place == 0 {
                    share.own = share.own.saturating_add(stack.weight);
                }
                if met[frame as usize].replace(number) != Some(number) {
                    share.total = share.total.saturating_add(stack.weight);
                }
            }
        }
        shares.retain(|share| share.total > 0);
        shares.sort_by_key(|share| std::cmp::Reverse((share.own, share.total)));
        shares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a profile in which `main` calls `work`, which calls itself, and `idle` once.
    pub(super) fn recursion() -> StackProfile {
        let frame = |name: &str| Frame {
            function: Some(name.into()),
            module: Some("/bin/toy".into()),
            space: Space::User,
            inlined: false,
        };
        let toy = ProfiledProcess { pid: 7, name: "toy".into() };
        let stack = |frames: &[u32], weight| Stack { process: toy.clone(), frames: frames.to_vec(), weight };
        StackProfile {
            schema: SCHEMA.into(),
            kind: ProfileKind::OnCpu,
            process: None,
            finding: None,
            seconds: 1.0,
            hz: Some(99),
            cpus: Some(1),
            totals: Totals::default(),
            frames: vec![frame("main"), frame("work"), frame("idle"), frame("never")],
            stacks: vec![stack(&[0, 1, 1, 1], 6), stack(&[0, 1], 3), stack(&[0, 2], 1)],
            blind_spots: Vec::new(),
        }
    }

    #[test]
    fn a_function_weighs_once_in_a_stack_however_often_it_calls_itself() {
        let share = |frame, own, total| Share { frame, own, total };
        assert_eq!(recursion().functions(), [share(1, 9, 9), share(2, 1, 1), share(0, 0, 10)]);
        assert_eq!(recursion().weight(), 10);
    }

    #[test]
    fn threads_at_it_are_weight_over_time() {
        let mut profile = recursion();
        assert_eq!(profile.threads(), Some(10.0 / 99.0));
        profile.kind = ProfileKind::OffCpu;
        profile.stacks[0].weight = 2_499_996;
        assert_eq!(profile.threads(), Some(2.5));
        profile.seconds = 0.0;
        assert_eq!(profile.threads(), None);
    }

    #[test]
    fn an_index_that_is_none_is_passed_over() {
        let mut profile = recursion();
        profile.stacks[0].frames = vec![99, 0, u32::MAX];
        assert_eq!(profile.frames_of(&profile.stacks[0]).count(), 1);
        assert_eq!(profile.functions().iter().map(|s| s.total).sum::<u64>(), 6 + 3 + 3 + 1 + 1);
    }
}
