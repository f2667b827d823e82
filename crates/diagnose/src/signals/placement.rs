//! NUMA placement: on which nodes a process has its memory and runs, and which node has room for all of it, as numad(8) would
//! choose.

use crate::signal::{over, ratio};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::catalogue::{Cpu, Node, Placement};
use whyslow_model::cpu_list;
use whyslow_model::key::TaskKey;
use whyslow_model::window::Window;
use whyslow_quantities::cpu;

/// Nodes of a machine, and the share of each large process on them.
pub struct Placements {
    nodes: BTreeMap<u32, NodeRoom>,
    processes: BTreeMap<TaskKey, BTreeMap<u32, PlacedShare>>,
}

struct NodeRoom {
    cpus: BTreeSet<u32>,
    /// CPUs' worth of idle time.
    idle: f64,
    free: f64,
}

#[derive(Default)]
struct PlacedShare {
    memory: f64,
    /// CPUs' worth of time.
    cpu: f64,
}

impl Placements {
    /// Collects the placements of a window; none if no process' placement was read.
    pub fn from_window(window: &Window) -> Self {
        let mut processes: BTreeMap<TaskKey, BTreeMap<u32, PlacedShare>> = BTreeMap::new();
        for change in window.changes::<Placement>() {
            let share = PlacedShare {
                memory: change.last().memory.get().unwrap_or(0.0),
                cpu: ratio(change.rate(|p| p.cpu_time)).unwrap_or(0.0),
            };
            processes.entry(change.key().task).or_default().insert(change.key().node, share);
        }
        let nodes = if processes.is_empty() { BTreeMap::new() } else { nodes(window) };
        Self { nodes, processes }
    }

    /// Returns the number of nodes that have CPUs.
    pub fn count(window: &Window) -> f64 {
        window.newest::<Node>().values().filter(|node| node.cpus.get().is_some_and(|cpus| !cpus.is_empty())).count()
            as f64
    }

    /// Returns the placement of a process, if it was read.
    pub fn process(&self, task: TaskKey) -> Option<ProcessPlacement<'_>> {
        Some(ProcessPlacement { nodes: &self.nodes, shares: self.processes.get(&task)? })
    }
}

/// Returns the idle share of each CPU.
pub(super) fn idle_cpus(window: &Window) -> BTreeMap<u32, f64> {
    let cpus = window.changes::<Cpu>();
    let idle = cpus.iter().map(|cpu| (*cpu.key(), cpu::IDLE_TIME.over(cpu)));
    idle.filter_map(|(cpu, idle)| Some((cpu, idle?))).collect()
}

fn nodes(window: &Window) -> BTreeMap<u32, NodeRoom> {
    let idle = idle_cpus(window);
    let room = |node: &Node| {
        let cpus = cpu_list::parse(node.cpus.get()?)?;
        let idle = cpus.iter().filter_map(|cpu| idle.get(cpu)).sum();
        Some(NodeRoom { cpus, idle, free: node.mem_free.get()? })
    };
    window.newest::<Node>().values().filter_map(|node| Some((node.node, room(node)?))).collect()
}

/// Nodes where a process has its memory and runs.
pub struct ProcessPlacement<'p> {
    nodes: &'p BTreeMap<u32, NodeRoom>,
    shares: &'p BTreeMap<u32, PlacedShare>,
}

impl ProcessPlacement<'_> {
    fn memory(&self) -> f64 {
        self.shares.values().map(|share| share.memory).sum()
    }

    fn cpu(&self) -> f64 {
        self.shares.values().map(|share| share.cpu).sum()
    }

    /// Returns the share of its memory accesses that go to another node, if it uses all of its memory evenly.
    pub fn remote_share(&self) -> Option<f64> {
        let remote = |share: &PlacedShare| Some(share.cpu * (1.0 - over(Some(share.memory), Some(self.memory()))?));
        over(self.shares.values().map(remote).sum::<Option<f64>>(), Some(self.cpu()))
    }

    fn with_most(&self, amount: fn(&PlacedShare) -> f64) -> Option<u32> {
        let most = self.shares.iter().max_by(|a, b| amount(a.1).total_cmp(&amount(b.1)));
        most.filter(|(_, share)| amount(share) > 0.0).map(|(node, _)| *node)
    }

    /// Returns the node with the most of its memory.
    pub fn memory_node(&self) -> Option<u32> {
        self.with_most(|share| share.memory)
    }

    /// Returns the node where it ran most.
    pub fn cpu_node(&self) -> Option<u32> {
        self.with_most(|share| share.cpu)
    }

    /// Returns the node with idle CPUs and free memory for all of the process, counting what it already has there; of several,
    /// the one with the most of its memory, as that need not be moved.
    pub fn advised(&self) -> Option<u32> {
        let none = PlacedShare::default();
        let share = |node: &u32| self.shares.get(node).unwrap_or(&none);
        let has_room = |(node, room): &(&u32, &NodeRoom)| {
            let own = share(node);
            room.idle + own.cpu >= self.cpu() && room.free + own.memory >= self.memory()
        };
        let fit = self.nodes.iter().filter(has_room).max_by(|a, b| share(a.0).memory.total_cmp(&share(b.0).memory))?;
        Some(*fit.0)
    }

    /// Returns the CPUs of that node.
    pub fn advised_cpus(&self) -> Option<String> {
        Some(cpu_list::format(&self.nodes.get(&self.advised()?)?.cpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SECOND, window};
    use whyslow_model::key::NodeTask;

    const TASK: TaskKey = TaskKey { pid: 7, tid: 7, start: 1 };

    /// Returns two nodes with a CPU each. The process has 1 GB on node 0 and uses the CPU of node 1; CPU 0 is `busy` per cent
    /// busy.
    fn machine(busy: u64, free: f64) -> Window {
        window([0, 10], |t, s| {
            for (node, busy) in [(0, busy), (1, 100)] {
                s.processor.cpu.push(Cpu {
                    user: (t * SECOND / 100 * busy).into(),
                    idle: (t * SECOND / 100 * (100 - busy)).into(),
                    iowait: 0.into(),
                    ..Cpu::new(node)
                });
                s.memory.node.push(Node {
                    cpus: node.to_string().as_str().into(),
                    mem_free: free.into(),
                    ..Node::new(node)
                });
                let (memory, ran) = if node == 0 { (1e9, 0) } else { (0.0, t * SECOND) };
                let on = NodeTask { node, task: TASK };
                s.task.placement.push(Placement { memory: memory.into(), cpu_time: ran.into(), ..Placement::new(on) });
            }
        })
    }

    #[test]
    fn memory_elsewhere_is_remote_and_its_node_is_advised_if_it_has_room() {
        let window = machine(0, 1e8);
        let placements = Placements::from_window(&window);
        let process = placements.process(TASK).unwrap();
        assert_eq!((process.memory_node(), process.cpu_node(), process.remote_share()), (Some(0), Some(1), Some(1.0)));
        assert_eq!((process.advised(), process.advised_cpus().as_deref()), (Some(0), Some("0")));
        assert_eq!(Placements::count(&window), 2.0);
    }

    #[test]
    fn memory_follows_where_only_its_own_cpus_have_room() {
        let advised = |busy, free| {
            let window = machine(busy, free);
            Placements::from_window(&window).process(TASK).unwrap().advised()
        };
        assert_eq!((advised(100, 2e9), advised(100, 1e8)), (Some(1), None));
    }
}
