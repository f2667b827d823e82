//! The NUMA nodes that hold the memory of large processes, and those that they run on (numa(7): /proc/PID/numa_maps).
//!
//! Reading the file makes the kernel walk the page tables of a process, so it is read on demand only, and rarely for large
//! processes.

use super::proc_reader::{others, remedy};
use super::stat::Stat;
use crate::memory::nodes_of_cpus;
use crate::os::{page_size, ticks_to_ns};
use crate::root::Root;
use crate::source::{Source, SourceInfo};
use crate::source_error::SourceError;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};
use std::{fs, io};
use whyslow_model::catalogue::Placement;
use whyslow_model::key::{NodeTask, TaskKey};
use whyslow_model::snapshot::Snapshot;

/// Minimum resident size: caches hold much of a smaller process's working set.
const LARGE: u64 = 64 << 20;
/// Maximum number of processes read, the largest first.
const PROCESSES: usize = 16;
/// One part in this many of the time is the most that the kernel may spend walking page tables.
const WALKING: u32 = 50;

/// The source of family `placement`.
#[derive(Default)]
pub(super) struct NumaMaps {
    processes: HashMap<TaskKey, PlacedProcess>,
}

#[derive(Default)]
struct PlacedProcess {
    /// Bytes and nanoseconds by node.
    memory: BTreeMap<u32, u64>,
    cpu_time: BTreeMap<u32, u64>,
    /// CPU time of each thread at the last reading.
    threads: HashMap<(u32, u64), u64>,
    next_walk: Option<Instant>,
}

impl Source for NumaMaps {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("proc/numa_maps", "on which NUMA nodes large processes have their memory, and where they run")
            .on_demand()
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let nodes = nodes_of_cpus(root);
        if nodes.values().collect::<BTreeSet<_>>().len() < 2 {
            return Err(SourceError::Absent("all memory is on one NUMA node".into()));
        }
        let mut known = std::mem::take(&mut self.processes);
        let mut refused = 0_usize;
        for task in large_processes(root) {
            let mut process = known.remove(&task).unwrap_or_default();
            match process.read(root, task.pid, &nodes) {
                Ok(()) => {
                    out.task.placement.extend(process.rows(task));
                    self.processes.insert(task, process);
                }
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => refused += 1,
                // The process has ended.
                Err(_) => {}
            }
        }
        if refused == 0 {
            return Ok(());
        }
        let why = format!("NUMA placement of {}", others(refused));
        Err(SourceError::NotPermitted { why, remedy: remedy().into() })
    }
}

/// Lists the processes with the most resident memory.
fn large_processes(root: &Root) -> Vec<TaskKey> {
    let sized = |pid: u32| {
        let line = fs::read(root.at(format!("proc/{pid}/stat"))).ok()?;
        let (stat, _) = Stat::parse(&line)?;
        let bytes = stat.rss_pages * page_size();
        (bytes >= LARGE).then_some((bytes, TaskKey { pid, tid: pid, start: stat.start }))
    };
    let mut found: Vec<(u64, TaskKey)> =
        root.list("proc").iter().filter_map(|name| sized(name.parse().ok()?)).collect();
    found.sort_by_key(|(bytes, task)| (std::cmp::Reverse(*bytes), *task));
    found.into_iter().take(PROCESSES).map(|(_, task)| task).collect()
}

impl PlacedProcess {
    fn read(&mut self, root: &Root, pid: u32, nodes: &BTreeMap<u32, u32>) -> io::Result<()> {
        self.add_cpu_time(root, pid, nodes);
        let start = Instant::now();
        if self.next_walk.is_some_and(|next| start < next) {
            return Ok(());
        }
        let text = fs::read(root.at(format!("proc/{pid}/numa_maps")))?;
        let end = Instant::now();
        self.next_walk = Some(end + (end - start).max(Duration::from_millis(10)) * WALKING);
        self.memory = memory_by_node(&String::from_utf8_lossy(&text));
        Ok(())
    }

    /// Adds the time that each thread ran since the last reading to the node on which it is now.
    fn add_cpu_time(&mut self, root: &Root, pid: u32, nodes: &BTreeMap<u32, u32>) {
        let seen = std::mem::take(&mut self.threads);
        for tid in root.list(&format!("proc/{pid}/task")).iter().filter_map(|name| name.parse::<u32>().ok()) {
            let Ok(line) = fs::read(root.at(format!("proc/{pid}/task/{tid}/stat"))) else { continue };
            let Some((stat, _)) = Stat::parse(&line) else { continue };
            let thread = (tid, stat.start);
            let time = ticks_to_ns(stat.user + stat.system);
            let node = stat.processor.and_then(|cpu| nodes.get(&u32::try_from(cpu).ok()?));
            if let Some(node) = node {
                let grown = seen.get(&thread).map_or(0, |before| time.saturating_sub(*before));
                *self.cpu_time.entry(*node).or_default() += grown;
            }
            self.threads.insert(thread, time);
        }
    }

    fn rows(&self, task: TaskKey) -> Vec<Placement> {
        // A node that has only memory or only CPU time gets a zero for the other.
        let amount = |of: &BTreeMap<u32, u64>, node: u32| of.get(&node).copied().unwrap_or(0);
        let nodes: BTreeSet<u32> = self.memory.keys().chain(self.cpu_time.keys()).copied().collect();
        let row = |node| Placement {
            memory: amount(&self.memory, node).into(),
            cpu_time: amount(&self.cpu_time, node).into(),
            ..Placement::new(NodeTask { node, task })
        };
        nodes.into_iter().map(row).collect()
    }
}

/// Parses lines such as `7f2e40000000 default anon=512 dirty=512 N0=500 N1=12 kernelpagesize_kB=4`.
fn memory_by_node(text: &str) -> BTreeMap<u32, u64> {
    let mut nodes: BTreeMap<u32, u64> = BTreeMap::new();
    for line in text.lines() {
        let page =
            line.split_whitespace().find_map(|word| word.strip_prefix("kernelpagesize_kB=")?.parse::<u64>().ok());
        let Some(page) = page else { continue };
        for word in line.split_whitespace() {
            let Some((node, pages)) = word.strip_prefix('N').and_then(|rest| rest.split_once('=')) else { continue };
            if let (Ok(node), Ok(pages)) = (node.parse(), pages.parse::<u64>()) {
                let bytes = nodes.entry(node).or_default();
                *bytes = bytes.saturating_add(pages.saturating_mul(page.saturating_mul(1024)));
            }
        }
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    const MAPS: &str = "55d0c6400000 default file=/usr/bin/N9=4 mapped=2 N0=2 kernelpagesize_kB=4
7f2e40000000 bind:0 anon=512 dirty=512 N0=500 N1=12 kernelpagesize_kB=4
7f2e80000000 default file=/dev/hugepages/x huge dirty=2 N1=2 kernelpagesize_kB=2048
7ffd00000000 default stack\n";

    #[test]
    fn pages_of_any_size_are_summed_by_node() {
        let nodes = memory_by_node(MAPS);
        assert_eq!(nodes, BTreeMap::from([(0, 502 * 4096), (1, 12 * 4096 + 4 * 1024 * 1024)]));
        assert_eq!(
            memory_by_node("x N0=y N1= kernelpagesize_kB=4\nN0=18446744073709551615 kernelpagesize_kB=4"),
            BTreeMap::from([(0, u64::MAX)])
        );
    }

    fn stat(pid: u32, user: u64, cpu: u32) -> String {
        let rss = LARGE / page_size();
        format!(
            "{pid} (db) R 1 1 1 0 -1 0 1 0 0 0 {user} 0 0 0 20 0 1 0 77 1 {rss} 0 0 0 0 0 0 0 0 0 0 0 0 0 17 {cpu} 0 0 0\n"
        )
    }

    #[test]
    fn time_counts_for_the_node_where_a_thread_is_found() {
        let tree = CapturedTree::with_files(&[
            ("sys/devices/system/node/node0/cpulist", "0\n"),
            ("sys/devices/system/node/node1/cpulist", "1\n"),
            ("proc/9/stat", &stat(9, 100, 1)),
            ("proc/9/task/9/stat", &stat(9, 100, 1)),
            ("proc/9/numa_maps", MAPS),
        ]);
        let mut source = NumaMaps::default();
        let mut read = || {
            let mut out = Snapshot::default();
            source.read(&tree.root(), &mut out).unwrap();
            let rows = out.task.placement.iter();
            rows.map(|row| (row.on.node, row.memory.get(), row.cpu_time.get())).collect::<Vec<_>>()
        };
        let second = ticks_to_ns(100);
        assert_eq!(read(), [(0, Some(2_056_192.0), Some(0)), (1, Some(4_243_456.0), Some(0))]);
        tree.write("proc/9/task/9/stat", &stat(9, 200, 1));
        assert_eq!(read()[1].2, Some(second));
        tree.write("proc/9/task/9/stat", &stat(9, 300, 0));
        assert_eq!(read().iter().map(|row| row.2).collect::<Vec<_>>(), [Some(second), Some(second)]);
    }

    #[test]
    fn on_a_single_node_there_is_nothing_to_say() {
        let tree = CapturedTree::with_files(&[("sys/devices/system/node/node0/cpulist", "0-1\n")]);
        let read = NumaMaps::default().read(&tree.root(), &mut Snapshot::default());
        assert!(matches!(read, Err(SourceError::Absent(_))), "{read:?}");
    }
}
