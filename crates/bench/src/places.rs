//! Where threads can be put: processors, which of them share a core, and which node each is part of.
//!
//! Documentation/admin-guide/cputopology.rst; Documentation/ABI/stable/sysfs-devices-node.

use std::collections::BTreeSet;
use whyslow_sense::Root;

const CPUS: &str = "sys/devices/system/cpu";
const NODES: &str = "sys/devices/system/node";
/// No kernel has more (NR_CPUS of arch/x86/Kconfig).
const MOST: u32 = 8192;

/// The processors this program may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Processors(Vec<Processor>);

/// A processor as the kernel counts them: a hyperthread, where its core has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Processor {
    pub(crate) number: u32,
    /// The first of those that share its core.
    core: u32,
    /// The node of memory it is next to.
    node: u32,
}

impl Processors {
    /// As the kernel tells them. Never empty: without sysfs there is the first.
    pub(crate) fn of(root: &Root) -> Self {
        let allowed = root.maybe("proc/self/status").and_then(|text| allowed(&text));
        let online = || root.word(&format!("{CPUS}/online")).and_then(|text| cpu_list(&text));
        let numbers = allowed.or_else(online).unwrap_or_else(|| vec![0]);
        let nodes: Vec<(u32, Vec<u32>)> = nodes(root).into_iter().map(|node| (node, cpus_of(root, node))).collect();
        let processor = |number: u32| {
            let siblings = root.word(&format!("{CPUS}/cpu{number}/topology/thread_siblings_list"));
            let core = siblings.and_then(|text| cpu_list(&text)).and_then(|list| list.first().copied());
            let node = nodes.iter().find(|(_, cpus)| cpus.contains(&number)).map_or(0, |(node, _)| *node);
            Processor { number, core: core.unwrap_or(number), node }
        };
        Self(numbers.into_iter().map(processor).collect())
    }

    /// One of each core first, then the others: so many threads, as far apart as they can be.
    pub(crate) fn spread_out(&self) -> Vec<u32> {
        let mut seen = BTreeSet::new();
        let (first, others): (Vec<&Processor>, Vec<_>) = self.0.iter().partition(|p| seen.insert(p.core));
        first.into_iter().chain(others).map(|p| p.number).collect()
    }

    /// How many cores there are.
    pub(crate) fn cores(&self) -> usize {
        self.0.iter().map(|p| p.core).collect::<BTreeSet<_>>().len()
    }

    /// How many processors there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The one that single threads are measured on: not the first, where there are others, for that one serves more
    /// interrupts than its share.
    pub(crate) fn quiet(&self) -> u32 {
        self.0.last().map_or(0, |p| p.number)
    }

    /// One on another core than this one; none where there is only one core.
    pub(crate) fn elsewhere(&self, number: u32) -> Option<u32> {
        let core = self.core(number)?;
        self.0.iter().find(|p| p.core != core).map(|p| p.number)
    }

    /// One that shares the core of this one.
    pub(crate) fn sibling(&self, number: u32) -> Option<u32> {
        let core = self.core(number)?;
        self.0.iter().find(|p| p.core == core && p.number != number).map(|p| p.number)
    }

    /// The nodes that have processors, each with one of them.
    pub(crate) fn by_node(&self) -> Vec<(u32, u32)> {
        let nodes: BTreeSet<u32> = self.0.iter().map(|p| p.node).collect();
        let one = |node| self.0.iter().rev().find(|p| p.node == node).map(|p| (node, p.number));
        nodes.into_iter().filter_map(one).collect()
    }

    fn core(&self, number: u32) -> Option<u32> {
        self.0.iter().find(|p| p.number == number).map(|p| p.core)
    }
}

/// The nodes that have memory; the first, where the kernel knows none.
pub(crate) fn nodes(root: &Root) -> Vec<u32> {
    let list = root.word(&format!("{NODES}/has_memory")).and_then(|text| cpu_list(&text));
    list.filter(|nodes| !nodes.is_empty()).unwrap_or_else(|| vec![0])
}

fn cpus_of(root: &Root, node: u32) -> Vec<u32> {
    root.word(&format!("{NODES}/node{node}/cpulist")).and_then(|text| cpu_list(&text)).unwrap_or_default()
}

/// The line `Cpus_allowed_list` of /proc/PID/status (proc(5)).
fn allowed(status: &str) -> Option<Vec<u32>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    cpu_list(list.trim()).filter(|cpus| !cpus.is_empty())
}

/// `0-3,8`, as the kernel writes lists; none where it is no such list.
pub(crate) fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MOST {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;

    /// A machine of these files.
    pub(crate) fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::captured(folder.path());
        (folder, root)
    }

    /// Two nodes of a core each, of two hyperthreads each, numbered as on most machines.
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
        let processors = Processors::of(&root);
        assert_eq!((processors.count(), processors.cores()), (4, 2));
        assert_eq!(processors.spread_out(), [0, 1, 2, 3]);
        assert_eq!((processors.sibling(3), processors.elsewhere(3)), (Some(1), Some(0)));
        assert_eq!(processors.by_node(), [(0, 2), (1, 3)]);
        assert_eq!(nodes(&root), [0, 1, 2], "memory without processors is memory too");
    }

    #[test]
    fn only_what_may_be_used_is_used() {
        let (_folder, root) = machine(&[("proc/self/status", "Cpus_allowed_list:\t2\n")]);
        let processors = Processors::of(&root);
        assert_eq!((processors.spread_out(), processors.quiet()), (vec![2], 2));
        assert_eq!((processors.sibling(2), processors.elsewhere(2)), (None, None));
    }

    #[test]
    fn without_sysfs_there_is_one() {
        let (_folder, root) = machine(&[]);
        assert_eq!(Processors::of(&root).spread_out(), [0]);
        assert_eq!(nodes(&root), [0]);
    }

    #[test]
    fn this_machine_has_processors_that_this_program_may_use() {
        let processors = Processors::of(&Root::live());
        let may = std::thread::available_parallelism().unwrap().get();
        assert!(processors.count() >= may && (1..=processors.count()).contains(&processors.cores()));
    }

    #[test]
    fn lists_are_the_kernels() {
        assert_eq!(cpu_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        for wrong in ["", "x", "3-1", "0-99999", "-1", "1,,2"] {
            assert_eq!(cpu_list(wrong), None, "{wrong}");
        }
    }
}
