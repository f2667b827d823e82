//! Paths from the top of a stack down, and the smallest limits on them.

use super::network::ENTRANCES;
use super::{IoPath, IoStack, NodeKind, SmallestLimit, StackNode};
use crate::diagnosis::Reading;
use std::collections::{BTreeMap, BTreeSet};

impl IoStack {
    /// Returns the ids of this node and of all below it, each once, upper ones first.
    pub(super) fn reachable<'s>(&'s self, from: &'s str) -> Vec<&'s str> {
        let mut found = vec![from];
        let mut next = 0;
        while let Some(node) = found.get(next).copied() {
            next += 1;
            for below in self.node(node).into_iter().flat_map(|node| &node.below) {
                if !found.contains(&below.id.as_str()) {
                    found.push(&below.id);
                }
            }
        }
        found
    }

    /// Finds the tops, the smallest limits for each, and the layout of the diagram.
    pub(super) fn find_paths(&mut self) {
        let below: BTreeSet<&str> =
            self.nodes.iter().flat_map(|node| &node.below).map(|below| below.id.as_str()).collect();
        let tops = self.nodes.iter().filter(|node| !below.contains(node.id.as_str()));
        let mut first_of = BTreeMap::new();
        let mut like = |top: &StackNode| {
            let first = first_of.entry(self.signature(top)?).or_insert_with(|| top.id.clone());
            (*first != top.id).then(|| first.clone())
        };
        let paths: Vec<IoPath> =
            tops.map(|top| IoPath { top: top.id.clone(), like: like(top), smallest: self.smallest(&top.id) }).collect();
        for node in &mut self.nodes {
            for limit in &mut node.limits {
                let is_it = |found: &&SmallestLimit| {
                    found.value < found.largest
                        && (found.kind, found.node.as_str(), found.setting.as_str())
                            == (limit.kind, node.id.as_str(), limit.setting.as_str())
                };
                let of = paths.iter().filter(|path| path.smallest.iter().any(|found| is_it(&found)));
                limit.smallest_for = of.map(|path| path.top.clone()).collect();
            }
        }
        self.paths = paths;
        self.diagram = self.groups(false);
    }

    /// Returns the properties that a path shares with others that differ only by name; `None` if every name matters.
    fn signature(&self, top: &StackNode) -> Option<String> {
        let nodes = || self.reachable(&top.id).into_iter().filter_map(|id| self.node(id));
        is_one_of_many(top).then(|| nodes().map(own_signature).collect())
    }

    /// Returns the smallest limits. Of equal limits the lowest node counts: stacked devices inherit the limits of those
    /// below.
    fn smallest(&self, top: &str) -> Vec<SmallestLimit> {
        let mut found = BTreeMap::new();
        for node in self.reachable(top).into_iter().filter_map(|id| self.node(id)) {
            for limit in &node.limits {
                let place = if limit.how.is_empty() { String::new() } else { format!(" ({})", limit.how) };
                let value = limit.kind.quantity(limit.value);
                let this = SmallestLimit {
                    kind: limit.kind,
                    node: node.id.clone(),
                    setting: limit.setting.clone(),
                    value: limit.value,
                    unit: limit.unit.clone(),
                    compared: 1,
                    largest: limit.value,
                    words: format!("{} {value} at {}{place}", limit.kind.words(), node.name),
                };
                found
                    .entry(limit.kind)
                    .and_modify(|best: &mut SmallestLimit| {
                        let (compared, largest) = (best.compared + 1, best.largest.max(this.value));
                        if this.value <= best.value {
                            *best = this.clone();
                        }
                        (best.compared, best.largest) = (compared, largest);
                    })
                    .or_insert(this);
            }
        }
        found.into_values().collect()
    }
}

/// Returns whether there are typically many such nodes: containers create interfaces and overlays, packages images in
/// files.
fn is_one_of_many(node: &StackNode) -> bool {
    match node.kind {
        NodeKind::Interface => node.words("type").is_some_and(|kind| ENTRANCES.contains(&kind)),
        NodeKind::FileSystem => {
            node.words("type") == Some("squashfs") || node.below.iter().any(|below| below.id.starts_with("mount:"))
        }
        NodeKind::LoopDevice | NodeKind::GuestDisk | NodeKind::GuestCard => true,
        _ => false,
    }
}

/// Returns a node's settings, and its id unless it is one of many.
fn own_signature(node: &StackNode) -> String {
    const NAMES: [&str; 8] = ["addresses", "bus address", "file", "MAC address", "options", "serial", "size", "WWN"];
    let facts = node.facts.iter().filter(|fact| !NAMES.contains(&fact.name.as_str()));
    let facts: String = facts
        .map(|fact| match &fact.value {
            Reading::Text(text) => format!("{} {text};", fact.name),
            Reading::Number(number) => format!("{} {number};", fact.name),
        })
        .collect();
    let limits: String = node.limits.iter().map(|limit| format!("{} {};", limit.setting, limit.value)).collect();
    let id = if is_one_of_many(node) { "" } else { &node.id };
    format!("{id}|{facts}{limits}{}|", node.problems.len())
}

#[cfg(test)]
mod tests {
    use super::super::{LimitKind, NodeKind, StackKind, StackNode};
    use super::*;

    fn node(name: &str, size: Option<f64>, below: &[&str]) -> StackNode {
        let mut node = StackNode::new(StackKind::Storage, NodeKind::Disk, format!("block:{name}"), name);
        node.limit(LimitKind::RequestSize, "max_sectors_kb", size, |_| String::new());
        below.iter().for_each(|below| node.lies_on(format!("block:{below}"), None));
        node
    }

    fn stack(nodes: Vec<StackNode>) -> IoStack {
        let mut stack = IoStack { nodes, ..IoStack::default() };
        stack.find_paths();
        stack
    }

    #[test]
    fn of_equal_limits_the_lowest_is_the_smallest() {
        let found = stack(vec![
            node("dm-0", Some(65_536.0), &["sda", "sdb"]),
            node("sda", Some(65_536.0), &[]),
            node("sdb", Some(131_072.0), &[]),
        ]);
        assert_eq!(found.paths.len(), 1);
        let [smallest] = &found.paths[0].smallest[..] else { panic!("{:?}", found.paths) };
        assert_eq!((smallest.node.as_str(), smallest.compared), ("block:sda", 3));
        assert_eq!(smallest.words, "request size 64 KiB at sda");
        let marked: Vec<&str> =
            found.nodes.iter().filter(|n| !n.limits[0].smallest_for.is_empty()).map(|n| n.name.as_str()).collect();
        assert_eq!(marked, ["sda"]);
    }

    #[test]
    fn a_limit_without_another_to_compare_with_is_not_marked() {
        let found = stack(vec![node("sda1", None, &["sda"]), node("sda", Some(65_536.0), &[])]);
        assert_eq!(found.paths[0].smallest[0].compared, 1);
        assert_eq!(found.nodes[1].limits[0].smallest_for, <[&str; 0]>::default());
    }

    #[test]
    fn a_shared_device_is_the_smallest_of_one_path_and_not_of_another() {
        let found = stack(vec![
            node("dm-0", Some(4096.0), &["sda"]),
            node("dm-1", Some(131_072.0), &["sda"]),
            node("sda", Some(65_536.0), &[]),
        ]);
        assert_eq!(found.nodes[2].limits[0].smallest_for, ["block:dm-1"]);
        assert_eq!(found.nodes[0].limits[0].smallest_for, ["block:dm-0"]);
    }

    #[test]
    fn a_cycle_ends() {
        let found = stack(vec![node("a", None, &["b"]), node("b", None, &["a"]), node("c", None, &["a"])]);
        assert_eq!(found.reachable("block:c"), ["block:c", "block:a", "block:b"]);
        assert_eq!(found.paths.len(), 1);
    }

    #[test]
    fn the_part_around_a_node_is_what_is_above_and_below() {
        let found = stack(vec![
            node("sda1", None, &["sda"]),
            node("sda2", None, &["sda"]),
            node("sda", Some(65_536.0), &["adapter"]),
            node("adapter", None, &[]),
            node("sdb", None, &["adapter"]),
        ]);
        let names = |part: IoStack| part.nodes.into_iter().map(|node| node.name).collect::<Vec<_>>();
        assert_eq!(names(found.around(&["block:sda1"])), ["sda1", "sda", "adapter"]);
        assert_eq!(names(found.around(&["block:sda"])), ["sda1", "sda2", "sda", "adapter"]);
        assert_eq!(names(found.around(&["block:sdb", "block:sda2"])), ["sda2", "sda", "adapter", "sdb"]);
    }
}
