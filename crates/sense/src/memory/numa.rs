//! /sys/devices/system/node: memory and allocations by NUMA node. Documentation/admin-guide/numastat.rst;
//! Documentation/ABI/stable/sysfs-devices-node.

use crate::text::{number, numbered, word};
use crate::{Root, SourceError, SourceInfo};
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Family, Node};
use whyslow_model::cpu_list;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::meminfo::entry;

const PATH: &str = "sys/devices/system/node";

pub(super) const INFO: SourceInfo = SourceInfo::new(PATH, "memory and allocations by NUMA node");

pub(super) fn list(root: &Root) -> Vec<u32> {
    root.list(PATH).iter().filter_map(|name| numbered(name, "node")).collect()
}

/// Returns the node of each CPU.
pub(crate) fn nodes_of_cpus(root: &Root) -> BTreeMap<u32, u32> {
    let cpus = |node: u32| cpu_list::parse(&root.word(&format!("{PATH}/node{node}/cpulist"))?);
    list(root)
        .into_iter()
        .flat_map(|node| cpus(node).unwrap_or_default().into_iter().map(move |cpu| (cpu, node)))
        .collect()
}

pub(super) fn read(nodes: &[u32], root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    for &number in nodes {
        let dir = format!("{PATH}/node{number}");
        let mut row = Node::new(number);
        row.cpus = root.setting(&format!("{dir}/cpulist")).into();
        let meminfo = root.polled_text(&format!("{dir}/meminfo")).and_then(|t| parse_meminfo(&t, &mut row));
        let numastat = root.polled_text(&format!("{dir}/numastat")).and_then(|t| parse_numastat(&t, &mut row));
        out.memory.node.push(row);
        meminfo.and(numastat)?;
    }
    if nodes.is_empty() {
        return Err(SourceError::Absent("this kernel reports no NUMA nodes (needs CONFIG_NUMA=y)".into()));
    }
    Ok(())
}

/// Parses lines `Node 0 MemTotal:  4417752 kB`.
fn parse_meminfo(text: &str, row: &mut Node) -> Result<(), SourceError> {
    for line in text.lines() {
        let (name, value) =
            entry(line).ok_or_else(|| SourceError::malformed("sys/devices/system/node/meminfo", line))?;
        if name.ends_with(" MemTotal") {
            row.mem_total = value.into();
        } else if name.ends_with(" MemFree") {
            row.mem_free = value.into();
        } else if name.ends_with(" AnonPages") {
            row.anon_pages = value.into();
        }
    }
    Ok(())
}

fn parse_numastat(text: &str, row: &mut Node) -> Result<(), SourceError> {
    for line in text.lines() {
        let mut rest = line;
        let name = word(&mut rest).unwrap_or_default();
        let pages =
            number(&mut rest).ok_or_else(|| SourceError::malformed("sys/devices/system/node/numastat", line))?;
        row.set(name, pages);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_bytes_and_allocations_in_pages() {
        let mut row = Node::new(0);
        parse_meminfo(
            "Node 0 MemTotal:        4417752 kB\nNode 0 MemFree:  8 kB\nNode 0 AnonPages: 4 kB\nNode 0 HugePages_Total:     0\n",
            &mut row,
        )
        .unwrap();
        parse_numastat("numa_hit 2249040\nlocal_node 7\nother_node 0\n", &mut row).unwrap();
        assert_eq!(row.mem_total.get(), Some(4_417_752.0 * 1024.0));
        assert_eq!((row.mem_free.get(), row.anon_pages.get()), (Some(8192.0), Some(4096.0)));
        assert_eq!(row.numa_hit.get(), Some(2_249_040));
        assert_eq!(row.other_node.get(), Some(0));
        assert_eq!(row.numa_miss.get(), None);
    }
}
