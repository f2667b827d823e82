//! A profile, `whyslow.profile/1`: weighted stacks of frames. Public interface, described in docs/profile.md. Fields may be
//! added; these stay.

mod tree;

pub use tree::{CallTree, Label, Node};

use crate::diagnosis::BlindSpot;
use serde::{Deserialize, Serialize};

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.profile/1";

/// Where the time of a process, or of the machine, went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// What the weights count.
    pub kind: Kind,
    /// The process it is of; none is the whole machine.
    pub process: Option<Process>,
    /// The key, `id@subject`, of the finding that blames that process, where it was chosen for that.
    pub finding: Option<String>,
    /// For how long it was watched.
    pub seconds: f64,
    /// How often each processor was looked at, per second; none where every wait was seen.
    pub hz: Option<u32>,
    /// Processors looked at; none where every wait was seen.
    pub cpus: Option<u32>,
    /// What is not in the stacks, and how whole they are.
    pub totals: Totals,
    /// Every function that stands in a stack.
    pub frames: Vec<Frame>,
    /// The stacks, heaviest first; no two are alike.
    pub stacks: Vec<Stack>,
    /// What could not be seen.
    pub blind_spots: Vec<BlindSpot>,
}

/// What a weight counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Samples of what ran on a processor.
    OnCpu,
    /// Microseconds spent waiting, from leaving a processor to being back on one.
    OffCpu,
}

/// A process by number and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name (`comm`).
    pub name: String,
}

/// Weights beside the stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Samples in which a processor was idle; none where waits were watched.
    pub idle: Option<u64>,
    /// Samples or waits for whose stack there was no room: how many, not how heavy.
    pub lost: u64,
    /// Weight of the stacks of programs: what is not of kernel threads.
    pub programs: u64,
    /// Of that, the weight of those whose user stack could not be read at all.
    pub without_user_stack: u64,
    /// Of that, the weight of those whose addresses could not be placed: the process ended before it could be looked at.
    pub unplaced: u64,
    /// Of that, the weight of those whose user stack does not reach back to where its thread began: code without frame
    /// pointers, or a stack deeper than the kernel walks.
    pub cut_short: u64,
}

/// A function in a stack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Its name, demangled; none where no symbol covers the address.
    pub function: Option<String>,
    /// The file it was loaded from, as the process spells it, or the kernel module; none for the kernel itself and for
    /// memory that no file backs.
    pub module: Option<String>,
    /// Whose code it is.
    pub space: Space,
    /// Whether the compiler put it into its caller: only debug information tells of it.
    pub inlined: bool,
}

/// Whose code it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// The kernel's.
    Kernel,
    /// A program's.
    User,
}

/// A path of calls and what it weighs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// Whose it is.
    pub process: Process,
    /// Indices into [`Profile::frames`], the outermost caller first. Empty where nothing of the stack could be read.
    pub frames: Vec<u32>,
    /// Samples or microseconds, as [`Profile::kind`] says.
    pub weight: u64,
}

/// What one function weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Index into [`Profile::frames`].
    pub frame: u32,
    /// Weight of the stacks that end in it.
    pub own: u64,
    /// Weight of the stacks it stands in; once each, however often it calls itself.
    pub total: u64,
}

impl Profile {
    /// The weight of all stacks.
    pub fn weight(&self) -> u64 {
        self.stacks.iter().fold(0, |sum, stack| sum.saturating_add(stack.weight))
    }

    /// How many threads were at it on average: on a processor (samples over those one processor gives in the time), or
    /// waiting (waited over the time). None where nothing was watched.
    pub fn threads(&self) -> Option<f64> {
        let whole = match self.kind {
            Kind::OnCpu => self.seconds * f64::from(self.hz?),
            Kind::OffCpu => self.seconds * 1e6,
        };
        (whole > 0.0).then(|| self.weight() as f64 / whole)
    }

    /// A frame by its index; none where a document holds an index that is none.
    pub fn frame(&self, index: u32) -> Option<&Frame> {
        self.frames.get(usize::try_from(index).ok()?)
    }

    /// The frames of a stack, the outermost caller first.
    pub fn frames_of<'a>(&'a self, stack: &'a Stack) -> impl DoubleEndedIterator<Item = &'a Frame> {
        stack.frames.iter().filter_map(|&index| self.frame(index))
    }

    /// What each function weighs, the heaviest in itself first.
    pub fn functions(&self) -> Vec<Share> {
        let mut shares: Vec<Share> =
            (0..).zip(&self.frames).map(|(frame, _)| Share { frame, own: 0, total: 0 }).collect();
        // The stack each function was last met in.
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

    /// `main` calls `work`, which calls itself; and once `idle`.
    pub(super) fn recursion() -> Profile {
        let frame = |name: &str| Frame {
            function: Some(name.into()),
            module: Some("/bin/toy".into()),
            space: Space::User,
            inlined: false,
        };
        let toy = Process { pid: 7, name: "toy".into() };
        let stack = |frames: &[u32], weight| Stack { process: toy.clone(), frames: frames.to_vec(), weight };
        Profile {
            schema: SCHEMA.into(),
            kind: Kind::OnCpu,
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
        profile.kind = Kind::OffCpu;
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
