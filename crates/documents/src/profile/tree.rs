//! Stacks merged from their outermost caller: the tree that a flame graph draws.

use super::{Stack, StackProfile};
use std::collections::BTreeMap;

/// Calls by caller. The first node is the root, which stands for the whole profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTree {
    /// All nodes, each after its caller.
    pub nodes: Vec<CallNode>,
}

/// A function in one call path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallNode {
    /// Label of the node.
    pub label: CallNodeLabel,
    /// Weight of the stacks that pass through it.
    pub total: u64,
    /// Number of its callers.
    pub depth: usize,
    /// Weight of the nodes before it at the same depth: its horizontal position.
    pub start: u64,
    /// Indices of its callees, by name.
    pub children: Vec<usize>,
}

/// Label of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallNodeLabel {
    /// The whole profile.
    Root,
    /// All processes with this name.
    Process(String),
    /// An index into [`StackProfile::frames`].
    Frame(u32),
}

impl CallTree {
    /// Merges the stacks of a profile, and all processes of the same name.
    pub fn from_profile(profile: &StackProfile) -> Self {
        let mut growing = Growing::default();
        growing.grow(CallNodeLabel::Root);
        for stack in &profile.stacks {
            growing.add(stack);
        }
        growing.settle(profile)
    }
}

/// A tree under construction, in which children are found by label.
#[derive(Default)]
struct Growing {
    nodes: Vec<CallNode>,
    children: Vec<BTreeMap<CallNodeLabel, usize>>,
}

impl Growing {
    fn grow(&mut self, label: CallNodeLabel) -> usize {
        self.nodes.push(CallNode { label, total: 0, depth: 0, start: 0, children: Vec::new() });
        self.children.push(BTreeMap::new());
        self.nodes.len() - 1
    }

    fn add(&mut self, stack: &Stack) {
        let frames = stack.frames.iter().map(|&frame| CallNodeLabel::Frame(frame));
        let mut at = 0;
        self.weigh(at, stack.weight);
        for label in std::iter::once(CallNodeLabel::Process(stack.process.name.clone())).chain(frames) {
            at = match self.children[at].get(&label) {
                Some(&child) => child,
                None => {
                    let child = self.grow(label.clone());
                    self.children[at].insert(label, child);
                    child
                }
            };
            self.weigh(at, stack.weight);
        }
    }

    fn weigh(&mut self, at: usize, weight: u64) {
        self.nodes[at].total = self.nodes[at].total.saturating_add(weight);
    }

    /// Sorts children by name, so that flame graphs of the same program look alike, and sets their positions.
    fn settle(mut self, profile: &StackProfile) -> CallTree {
        for at in 0..self.nodes.len() {
            let mut children: Vec<usize> = self.children[at].values().copied().collect();
            children.sort_by_key(|&child| name(profile, &self.nodes[child].label));
            let (mut start, depth) = (self.nodes[at].start, self.nodes[at].depth + 1);
            for &child in &children {
                self.nodes[child].start = start;
                self.nodes[child].depth = depth;
                start = start.saturating_add(self.nodes[child].total);
            }
            self.nodes[at].children = children;
        }
        CallTree { nodes: self.nodes }
    }
}

fn name<'a>(profile: &'a StackProfile, label: &'a CallNodeLabel) -> Option<(Option<&'a str>, Option<&'a str>)> {
    match label {
        CallNodeLabel::Root => None,
        CallNodeLabel::Process(name) => Some((Some(name), None)),
        CallNodeLabel::Frame(index) => {
            profile.frame(*index).map(|frame| (frame.function.as_deref(), frame.module.as_deref()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::recursion;
    use super::*;

    #[test]
    fn stacks_share_their_callers_and_stand_side_by_side() {
        let tree = CallTree::from_profile(&recursion());
        let drawn: Vec<(&CallNodeLabel, u64, usize, u64)> =
            tree.nodes.iter().map(|n| (&n.label, n.total, n.depth, n.start)).collect();
        assert_eq!(
            drawn,
            [
                (&CallNodeLabel::Root, 10, 0, 0),
                (&CallNodeLabel::Process("toy".into()), 10, 1, 0),
                (&CallNodeLabel::Frame(0), 10, 2, 0),
                // 'idle' precedes 'work': nodes are sorted by name.
                (&CallNodeLabel::Frame(1), 9, 3, 1),
                (&CallNodeLabel::Frame(1), 6, 4, 1),
                (&CallNodeLabel::Frame(1), 6, 5, 1),
                (&CallNodeLabel::Frame(2), 1, 3, 0),
            ]
        );
        assert_eq!(tree.nodes[2].children, [6, 3]);
    }

    #[test]
    fn nothing_is_a_root_alone() {
        let mut profile = recursion();
        profile.stacks.clear();
        assert_eq!(CallTree::from_profile(&profile).nodes.len(), 1);
    }
}
