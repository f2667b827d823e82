//! CPUs, cores and NUMA nodes.
//!
//! Documentation/admin-guide/cputopology.rst; Documentation/ABI/stable/sysfs-devices-node.

use std::collections::BTreeSet;
use whyslow_model::cpu_list;
use whyslow_sense::Root;

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";

/// CPUs that this program may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CpuTopology(Vec<CpuInfo>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuInfo {
    pub(crate) number: u32,
    /// First CPU of its core.
    core: u32,
    node: u32,
}

impl CpuTopology {
    /// Reads the topology. Never empty: without sysfs, it has CPU 0.
    pub(crate) fn read(root: &Root) -> Self {
        let allowed = root.maybe("proc/self/status").and_then(|text| allowed(&text));
        let online = || root.word(&format!("{CPUS}/online")).and_then(|text| cpu_list::parse(&text));
        let numbers = allowed.or_else(online).unwrap_or_else(|| BTreeSet::from([0]));
        let nodes: Vec<(u32, BTreeSet<u32>)> =
            nodes(root).into_iter().map(|node| (node, cpus_of(root, node))).collect();
        let processor = |number: u32| {
            let siblings = root.word(&format!("{CPUS}/cpu{number}/topology/thread_siblings_list"));
            let core = siblings.and_then(|text| cpu_list::parse(&text)).and_then(|list| list.first().copied());
            let node = nodes.iter().find(|(_, cpus)| cpus.contains(&number)).map_or(0, |(node, _)| *node);
            CpuInfo { number, core: core.unwrap_or(number), node }
        };
        Self(numbers.into_iter().map(processor).collect())
    }

    /// Returns one CPU of each core first, then their hyperthreads.
    pub(crate) fn spread_over_cores(&self) -> Vec<u32> {
        let mut seen = BTreeSet::new();
        let (first, others): (Vec<&CpuInfo>, Vec<_>) = self.0.iter().partition(|p| seen.insert(p.core));
        first.into_iter().chain(others).map(|p| p.number).collect()
    }

    pub(crate) fn cores(&self) -> usize {
        self.0.iter().map(|p| p.core).collect::<BTreeSet<_>>().len()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the CPU for single-threaded measurements: the last, because the first often serves more interrupts.
    pub(crate) fn quiet_cpu(&self) -> u32 {
        self.0.last().map_or(0, |p| p.number)
    }

    /// Returns a CPU on another core.
    pub(crate) fn on_other_core(&self, number: u32) -> Option<u32> {
        let core = self.core(number)?;
        self.0.iter().find(|p| p.core != core).map(|p| p.number)
    }

    /// Returns another hyperthread of the same core.
    pub(crate) fn sibling(&self, number: u32) -> Option<u32> {
        let core = self.core(number)?;
        self.0.iter().find(|p| p.core == core && p.number != number).map(|p| p.number)
    }

    /// Returns the nodes that have CPUs, each with one of them.
    pub(crate) fn by_node(&self) -> Vec<(u32, u32)> {
        let nodes: BTreeSet<u32> = self.0.iter().map(|p| p.node).collect();
        let one = |node| self.0.iter().rev().find(|p| p.node == node).map(|p| (node, p.number));
        nodes.into_iter().filter_map(one).collect()
    }

    fn core(&self, number: u32) -> Option<u32> {
        self.0.iter().find(|p| p.number == number).map(|p| p.core)
    }
}

/// Returns the nodes that have memory; node 0 if the kernel reports none.
pub(crate) fn nodes(root: &Root) -> Vec<u32> {
    let list = root.word(&format!("{NODES}/has_memory")).and_then(|text| cpu_list::parse(&text));
    list.filter(|nodes| !nodes.is_empty()).map_or_else(|| vec![0], Vec::from_iter)
}

fn cpus_of(root: &Root, node: u32) -> BTreeSet<u32> {
    root.word(&format!("{NODES}/node{node}/cpulist")).and_then(|text| cpu_list::parse(&text)).unwrap_or_default()
}

/// Parses `Cpus_allowed_list` of /proc/PID/status (proc(5)).
fn allowed(status: &str) -> Option<BTreeSet<u32>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    cpu_list::parse(list.trim()).filter(|cpus| !cpus.is_empty())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;

    /// Returns a root with these files.
    pub(crate) fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = whyslow_testing::folder();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::captured(folder.path());
        (folder, root)
    }

    /// Returns two nodes of one core with two hyperthreads each, numbered as on most machines.
    fn two_by_two() -> (tempfile::TempDir, Root) {
        let siblings = |cpu| format!("{CPUS}/cpu{cpu}/topology/thread_siblings_list");
        let nodes = |node| format!("{NODES}/node{node}/cpulist");
        machine(&[
            ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3\n"),
            (&siblings(0), "0,2\n"),
            (&siblings(1), "1,3\n"),
            (&siblings(2), "0,2\n"),
            (&siblings(3), "1,3\n"),
            (&format!("{NODES}/has_memory"), "0-2\n"),
            (&nodes(0), "0,2\n"),
            (&nodes(1), "1,3\n"),
            (&nodes(2), "\n"),
        ])
    }

    #[test]
    fn cores_come_before_their_hyperthreads() {
        let (_folder, root) = two_by_two();
        let topology = CpuTopology::read(&root);
        assert_eq!((topology.count(), topology.cores()), (4, 2));
        assert_eq!(topology.spread_over_cores(), [0, 1, 2, 3]);
        assert_eq!((topology.sibling(3), topology.on_other_core(3)), (Some(1), Some(0)));
        assert_eq!(topology.by_node(), [(0, 2), (1, 3)]);
        assert_eq!(nodes(&root), [0, 1, 2], "memory without processors is memory too");
    }

    #[test]
    fn only_allowed_cpus_are_used() {
        let (_folder, root) = machine(&[("proc/self/status", "Cpus_allowed_list:\t2\n")]);
        let topology = CpuTopology::read(&root);
        assert_eq!((topology.spread_over_cores(), topology.quiet_cpu()), (vec![2], 2));
        assert_eq!((topology.sibling(2), topology.on_other_core(2)), (None, None));
    }

    #[test]
    fn without_sysfs_there_is_one_cpu() {
        let (_folder, root) = machine(&[]);
        assert_eq!(CpuTopology::read(&root).spread_over_cores(), [0]);
        assert_eq!(nodes(&root), [0]);
    }

    #[test]
    fn this_machine_has_at_least_the_cpus_of_this_program() {
        let topology = CpuTopology::read(&Root::live());
        let may = std::thread::available_parallelism().unwrap().get();
        assert!(topology.count() >= may && (1..=topology.count()).contains(&topology.cores()));
    }
}
