//! Memory that can be allocated without swapping, on the machine and within the limits of this process's cgroups,
//! version 1 (cgroup-v1/memory.rst) and 2 (Documentation/admin-guide/cgroup-v2.rst).

use whyslow_sense::Root;

/// Reclaimable page cache of a cgroup; version 1 prefixes the count that includes its children with `total_`.
const CACHED: [&str; 2] = ["total_inactive_file ", "inactive_file "];

/// Returns the bytes available without swapping, on the machine and within the limits of this process's cgroups; 0 if
/// unknown.
pub(crate) fn available(root: &Root) -> u64 {
    let machine = meminfo(root, "MemAvailable:").unwrap_or(0);
    within_cgroups(root).fold(machine, u64::min)
}

/// Returns the free bytes of a NUMA node; memory bound to a node is never taken from another.
pub(crate) fn free_of_node(root: &Root, node: u32) -> u64 {
    let text = root.maybe(&format!("sys/devices/system/node/node{node}/meminfo"));
    // A kernel without NUMA has no such file.
    text.and_then(|text| entry(&text, "MemFree:")).unwrap_or_else(|| available(root))
}

/// Returns a line of /proc/meminfo, such as `MemAvailable:`, in bytes.
pub(crate) fn meminfo(root: &Root, name: &str) -> Option<u64> {
    let text = root.maybe("proc/meminfo")?;
    text.lines().find_map(|line| entry(line.starts_with(name).then_some(line)?, name))
}

/// Parses `MemFree:  123 kB`, possibly after `Node 0`, and returns bytes.
fn entry(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.split_once(name))?.1;
    rest.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the memory left under each limit from this process's cgroup up to the root.
fn within_cgroups(root: &Root) -> impl Iterator<Item = u64> {
    own_memory_cgroups(root).into_iter().filter_map(|(hierarchy, path)| {
        let path = path.trim_matches('/');
        let ends = path.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| at).chain([path.len()]);
        let left = |end: usize| {
            let folder = format!("{}/{}", hierarchy.root, &path[..end]);
            let stat = root.maybe(&format!("{folder}/memory.stat")).unwrap_or_default();
            let count = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
            let cached: u64 = CACHED.iter().filter_map(|name| count(name)).sum();
            // A cgroup without a limit contains `max`, which is not a number.
            let limit = root.number(&format!("{folder}/{}", hierarchy.limit))?;
            let usage = root.number(&format!("{folder}/{}", hierarchy.usage))?;
            Some(limit.saturating_sub(usage.saturating_sub(cached)))
        };
        ends.filter_map(left).min()
    })
}

/// Mount point of a cgroup version, and the files with a cgroup's limit and usage.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub(crate) root: &'static str,
    pub(crate) limit: &'static str,
    pub(crate) usage: &'static str,
}

const V1: Hierarchy =
    Hierarchy { root: "sys/fs/cgroup/memory", limit: "memory.limit_in_bytes", usage: "memory.usage_in_bytes" };
const V2: Hierarchy = Hierarchy { root: "sys/fs/cgroup", limit: "memory.max", usage: "memory.current" };

/// Returns this process's cgroup, such as `/user.slice/x`, in each hierarchy that may control memory, version 1 first.
pub(crate) fn own_memory_cgroups(root: &Root) -> Vec<(&'static Hierarchy, String)> {
    let text = root.maybe("proc/self/cgroup").unwrap_or_default();
    let path = |controller: &str| {
        text.lines().find_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next()?, fields.next()?);
            controllers.split(',').any(|name| name == controller).then(|| path.to_owned())
        })
    };
    // Version 2 has one line, without controllers: `0::/user.slice/x`.
    [(&V1, path("memory")), (&V2, path(""))].into_iter().filter_map(|(version, path)| Some((version, path?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu_topology::tests::machine;

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal: 4000 kB\nMemFree: 50 kB\nMemAvailable: 3000 kB\n");

    #[test]
    fn available_memory_is_read_from_meminfo() {
        let (_folder, root) = machine(&[MEMINFO]);
        assert_eq!(available(&root), 3000 << 10);
        let (_folder, root) = machine(&[]);
        assert_eq!(available(&root), 0);
    }

    #[test]
    fn the_tightest_cgroup_limit_applies() {
        let (_folder, root) = machine(&[
            MEMINFO,
            ("proc/self/cgroup", "4:cpu,memory:/a/b\n0::/x/y\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1048576\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "48576\n"),
            ("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", "0\n"),
            ("sys/fs/cgroup/x/memory.max", "max\n"),
            ("sys/fs/cgroup/x/memory.current", "5\n"),
        ]);
        assert_eq!(available(&root), 1_000_000);
    }

    #[test]
    fn a_node_reports_its_own_free_memory() {
        let node = "sys/devices/system/node/node1/meminfo";
        let (_folder, root) = machine(&[MEMINFO, (node, "Node 1 MemTotal: 9 kB\nNode 1 MemFree:  7 kB\n")]);
        assert_eq!((free_of_node(&root, 1), free_of_node(&root, 0)), (7 << 10, 3000 << 10));
    }

    #[test]
    fn the_own_cgroup_is_found_in_both_versions() {
        let text = "9:blkio:/a\n4:cpu,memory:/user.slice/x\n0::/init.scope\n";
        let (_folder, root) = machine(&[("proc/self/cgroup", text)]);
        assert_eq!(own_memory_cgroups(&root), [(&V1, "/user.slice/x".into()), (&V2, "/init.scope".into())]);
        let (_folder, root) = machine(&[]);
        assert_eq!(own_memory_cgroups(&root), []);
    }
}
