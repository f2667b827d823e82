//! Layout of the diagram: unconnected groups of nodes, and in each group columns from the nodes where requests enter to
//! the hardware.

use super::{IoStack, StackKind, StackNode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes that are connected with one another, and with no others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackGroup {
    /// Storage, network or guests.
    pub stack: StackKind,
    /// The ids of the nodes, by column. What a node lies on is in later columns; the last one has what lies on nothing. Nodes are
    /// in such an order that lines between them seldom cross.
    pub columns: Vec<Vec<String>>,
}

impl IoStack {
    /// Returns the groups to draw. Omits minor nodes and those that differ from others only by name, unless `all` is
    /// set.
    pub fn groups(&self, all: bool) -> Vec<StackGroup> {
        let tops: Vec<&StackNode> = self.tops(all).collect();
        let shown: BTreeSet<&str> = tops.iter().flat_map(|top| self.reachable(&top.id)).collect();
        let graph = StackGraph::from_nodes(self.nodes.iter().filter(|node| shown.contains(node.id.as_str())));
        let mut seen = BTreeSet::new();
        let mut groups = Vec::new();
        for top in tops {
            if !seen.contains(top.id.as_str()) {
                let members = graph.connected(&top.id);
                groups.push(StackGroup { stack: top.stack, columns: graph.columns(&members) });
                seen.extend(members);
            }
        }
        groups
    }

    fn tops(&self, all: bool) -> impl Iterator<Item = &StackNode> {
        let tops = self.paths.iter().filter_map(move |path| Some((path, self.node(&path.top)?)));
        tops.filter(move |(path, top)| all || (path.like.is_none() && !top.minor)).map(|(_, top)| top)
    }

    /// Returns the tops of paths that differ from this one only by name.
    pub fn alike<'s>(&'s self, top: &'s str) -> impl Iterator<Item = &'s StackNode> {
        let others = self.paths.iter().filter(move |path| path.like.as_deref() == Some(top));
        others.filter_map(move |path| self.node(&path.top)).filter(|node| !node.minor)
    }
}

/// The edges between nodes, in both directions.
struct StackGraph<'s> {
    /// All nodes, in the order of the document.
    nodes: Vec<&'s str>,
    below: BTreeMap<&'s str, Vec<&'s str>>,
    above: BTreeMap<&'s str, Vec<&'s str>>,
}

impl<'s> StackGraph<'s> {
    fn from_nodes(nodes: impl Iterator<Item = &'s StackNode>) -> Self {
        let mut graph = Self { nodes: Vec::new(), below: BTreeMap::new(), above: BTreeMap::new() };
        for node in nodes {
            let below: Vec<&str> = node.below.iter().map(|below| below.id.as_str()).collect();
            for id in &below {
                graph.above.entry(id).or_default().push(&node.id);
            }
            graph.nodes.push(&node.id);
            graph.below.insert(&node.id, below);
        }
        graph
    }

    fn of_one<'m>(map: &'m BTreeMap<&'s str, Vec<&'s str>>, id: &str) -> &'m [&'s str] {
        map.get(id).map_or(&[], Vec::as_slice)
    }

    /// Returns all nodes that are connected with this one, in the order in which they are found.
    fn connected(&self, from: &'s str) -> Vec<&'s str> {
        let mut found = vec![from];
        let mut next = 0;
        while let Some(id) = found.get(next).copied() {
            next += 1;
            for other in [&self.below, &self.above].into_iter().flat_map(|map| Self::of_one(map, id)) {
                if !found.contains(other) {
                    found.push(*other);
                }
            }
        }
        found
    }

    /// Returns the height of each node: the length of the longest path below it.
    fn heights(&self, members: &[&'s str]) -> BTreeMap<&'s str, usize> {
        let mut heights: BTreeMap<&str, usize> = members.iter().map(|id| (*id, 0)).collect();
        // A path has at most all members. Without cycles the loop ends earlier.
        for _ in members {
            let mut is_settled = true;
            for id in members {
                let below = Self::of_one(&self.below, id).iter().filter_map(|below| heights.get(below));
                let height = below.max().map_or(0, |height| height + 1).min(members.len() - 1);
                is_settled &= heights.insert(*id, height) == Some(height);
            }
            if is_settled {
                break;
            }
        }
        heights
    }

    /// Arranges nodes from the lowest up, each followed by those above it, so that the lines of a tree do not cross.
    fn columns(&self, members: &[&'s str]) -> Vec<Vec<String>> {
        let heights = self.heights(members);
        let last = heights.values().copied().max().unwrap_or(0);
        let mut columns = vec![Vec::new(); last + 1];
        let mut seen = BTreeSet::new();
        let mut stack: Vec<&str> = self.nodes.iter().rev().copied().filter(|id| heights.get(id) == Some(&0)).collect();
        while let Some(id) = stack.pop() {
            let Some(height) = heights.get(id).filter(|_| seen.insert(id)) else { continue };
            columns[last - height].push(id.to_owned());
            stack.extend(Self::of_one(&self.above, id).iter().rev());
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NodeKind, StackKind, StackNode};
    use super::*;

    fn node(name: &str, below: &[&str]) -> StackNode {
        let mut node = StackNode::new(StackKind::Storage, NodeKind::Disk, name.into(), name);
        below.iter().for_each(|below| node.lies_on((*below).into(), None));
        node
    }

    fn columns(nodes: Vec<StackNode>) -> Vec<String> {
        let mut stack = IoStack { nodes, ..IoStack::default() };
        stack.find_paths();
        let words = |group: &StackGroup| group.columns.iter().map(|ids| ids.join(" ")).collect::<Vec<_>>().join(" | ");
        stack.groups(false).iter().map(words).collect()
    }

    #[test]
    fn what_shares_nothing_is_in_groups_of_its_own() {
        let nodes = vec![
            node("/", &["vda1"]),
            node("/nfs", &["filer"]),
            node("vda1", &["vda"]),
            node("vda", &[]),
            node("filer", &[]),
        ];
        assert_eq!(columns(nodes), ["/ | vda1 | vda", "/nfs | filer"]);
    }

    #[test]
    fn nodes_are_beside_what_they_lie_on_and_lines_do_not_cross() {
        // In the order of the mounts, the lines of /boot and /srv would cross.
        let nodes = vec![
            node("/", &["vg"]),
            node("/srv", &["sdb"]),
            node("/boot", &["sda1"]),
            node("vg", &["sda2"]),
            node("sda1", &["sda"]),
            node("sda2", &["sda"]),
            node("sda", &["hba"]),
            node("sdb", &["hba"]),
            node("hba", &[]),
        ];
        assert_eq!(columns(nodes), ["/ | /boot vg | sda1 sda2 /srv | sda sdb | hba"]);
    }

    #[test]
    fn an_array_is_left_of_all_its_members() {
        let nodes = vec![
            node("/", &["md0"]),
            node("md0", &["sda1", "sdb"]),
            node("sda1", &["sda"]),
            node("sda", &[]),
            node("sdb", &[]),
        ];
        assert_eq!(columns(nodes), ["/ | md0 | sda1 | sda sdb"]);
    }

    #[test]
    fn minor_nodes_and_those_that_are_alike_are_left_out_unless_all_are_wanted() {
        let minor = StackNode { minor: true, ..node("/run", &[]) };
        let loops = ["/snap/a", "/snap/b"].map(|point| {
            let mut image = node(point, &["vda"]);
            image.kind = NodeKind::LoopDevice;
            image
        });
        let mut stack =
            IoStack { nodes: [vec![minor], loops.to_vec(), vec![node("vda", &[])]].concat(), ..IoStack::default() };
        stack.find_paths();
        assert_eq!(stack.diagram.len(), 1);
        assert_eq!(stack.diagram[0].columns, [["/snap/a"], ["vda"]]);
        assert_eq!(stack.alike("/snap/a").map(|node| node.name.as_str()).collect::<Vec<_>>(), ["/snap/b"]);
        let all = stack.groups(true);
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].columns, [vec!["/snap/a", "/snap/b"], vec!["vda"]]);
    }

    #[test]
    fn a_cycle_ends() {
        assert_eq!(columns(vec![node("/", &["a"]), node("a", &["b"]), node("b", &["a"])]).len(), 1);
    }
}
