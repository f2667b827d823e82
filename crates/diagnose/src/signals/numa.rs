//! NUMA nodes: which node serves allocations (Documentation/admin-guide/numastat.rst).

use crate::signal::{Entity, over, page_size, signals, sum};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::Node;
use whyslow_model::window::{Change, Window};

/// A node's memory over the window.
pub struct NodeUse<'w> {
    change: &'w Change<'w, Node>,
    page_size: f64,
    /// Largest free share among the other nodes.
    free_elsewhere: Option<f64>,
}

fn share(node: &Change<'_, Node>, part: fn(&Node) -> Option<f64>) -> Option<f64> {
    // The newest row that has the value: numastat prints counts and memory in separate tables.
    let newest = |f: fn(&Node) -> Option<f64>| node.course(f).last().map(|(_, value)| value);
    over(newest(part), newest(|n| n.mem_total.get()))
}

fn free_share(node: &Change<'_, Node>) -> Option<f64> {
    share(node, |n| n.mem_free.get())
}

impl NodeUse<'_> {
    /// Returns the pages requested on this node, whether allocated here or on another node.
    fn wanted(&self) -> Option<f64> {
        Some(self.change.grown(|n| n.numa_hit)? + self.change.grown(|n| n.numa_foreign)?)
    }

    fn allocated(&self) -> Option<f64> {
        sum([self.change.grown(|n| n.local_node), self.change.grown(|n| n.other_node)])
    }
}

signals! { n: NodeUse<'_>;
    "node.foreign_share" "ratio" "share of the pages wanted on this node that were allocated on another one", "Δnuma_foreign / Δ(numa_hit + numa_foreign)", "/sys/devices/system/node, numastat", normal (near 0.02) => over(n.change.grown(|n| n.numa_foreign), n.wanted());
    "node.foreign" "bytes" "memory that this is", "Δnuma_foreign x page size", "/sys/devices/system/node, numastat" => n.change.grown(|n| n.numa_foreign).map(|pages| pages * n.page_size);
    "node.foreign_rate" "bytes/s" "the same per second", "Δnuma_foreign x page size / Δt", "/sys/devices/system/node, numastat", normal (near 65536.0) => n.change.rate(|n| n.numa_foreign).map(|pages| pages * n.page_size);
    "node.remote_share" "ratio" "share of the pages allocated on this node that tasks on CPUs of another one got, as wanted or not", "Δother_node / Δ(local_node + other_node)", "/sys/devices/system/node, numastat", normal "near 0, unless interleaving is wanted" => over(n.change.grown(|n| n.other_node), n.allocated());
    "node.free_share" "ratio" "share of its memory that is free", "MemFree / MemTotal", "/sys/devices/system/node, numastat -m", normal "as much as on the other nodes" => free_share(n.change);
    "node.programs_share" "ratio" "share of its memory that programs have: page cache, which is reclaimed when needed, is not counted", "AnonPages / MemTotal", "/sys/devices/system/node, numastat -m", normal "about as much as on the other nodes" => share(n.change, |n| n.anon_pages.get());
    "node.free_elsewhere" "ratio" "the same of the other node with the largest", "max of MemFree / MemTotal", "/sys/devices/system/node, numastat -m", normal "as much as here" => n.free_elsewhere;
    "node.cpus" "text" "its CPUs", "cpulist", "/sys/devices/system/node", normal "as many as its share of the memory" => n.change.last().cpus.get();
}

/// Returns every node of a machine with several.
pub fn entities(window: &Window) -> Vec<Entity> {
    let changes = window.changes::<Node>();
    if changes.len() < 2 {
        return Vec::new();
    }
    let page_size = page_size(window);
    let entity = |change: &Change<'_, Node>| {
        let others = changes.iter().filter(|other| other.key() != change.key());
        let free_elsewhere = others.filter_map(free_share).reduce(f64::max);
        let node = NodeUse { change, page_size, free_elsewhere };
        Entity::from_subject(Subject::new("numa_node", format!("node{}", change.key())), &node)
    };
    changes.iter().map(entity).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;

    #[test]
    fn what_is_wanted_here_and_allocated_elsewhere() {
        let found = entities(&window([0, 10], |t, s| {
            // Node 0 is full: of 1000 pages requested there per second, 250 come from node 1.
            let node = |node, hit: u64, foreign: u64, other: u64, free: f64| Node {
                numa_hit: (t * hit).into(),
                numa_foreign: (t * foreign).into(),
                local_node: (t * hit).into(),
                other_node: (t * other).into(),
                mem_total: 1e9.into(),
                mem_free: free.into(),
                ..Node::new(node)
            };
            s.memory.node = vec![node(0, 750, 250, 0, 1e7), node(1, 750, 0, 250, 6e8)];
        }));
        let [full, roomy] = &found[..] else { panic!("two nodes: {found:?}") };
        assert_eq!(full.subject.name, "node0");
        assert_eq!(
            (full.number("node.foreign_share"), full.number("node.foreign_rate")),
            (Some(0.25), Some(1_024_000.0))
        );
        assert_eq!(full.number("node.foreign"), Some(10_240_000.0));
        assert_eq!((full.number("node.free_share"), full.number("node.free_elsewhere")), (Some(0.01), Some(0.6)));
        assert_eq!((roomy.number("node.foreign_share"), roomy.number("node.remote_share")), (Some(0.0), Some(0.25)));
    }

    #[test]
    fn one_node_has_no_other() {
        assert_eq!(entities(&window([0], |_, s| s.memory.node.push(Node::new(0)))).len(), 0);
    }
}
