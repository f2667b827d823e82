//! How much memory may be taken without anybody losing theirs.

use whyslow_sense::Root;

/// What of a group's memory is the page cache's, which gives way: with `total_` it counts the groups below too, in version 1.
const CACHED: [&str; 2] = ["total_inactive_file ", "inactive_file "];

/// Bytes of memory that are to be had: what the kernel could free without swapping, and what the control groups this program
/// is in leave of their limits. 0 where that is not known.
pub(crate) fn available(root: &Root) -> u64 {
    let machine = root.maybe("proc/meminfo").and_then(|text| entry(&text, "MemAvailable:")).unwrap_or(0);
    of_groups(root).into_iter().fold(machine, u64::min)
}

/// Bytes of node `node` that are free. A page that has to be of a node is not taken from elsewhere where there is none.
pub(crate) fn free_of_node(root: &Root, node: u32) -> u64 {
    let text = root.maybe(&format!("sys/devices/system/node/node{node}/meminfo"));
    // A kernel without NUMA has no nodes to ask.
    text.and_then(|text| entry(&text, "MemFree:")).unwrap_or_else(|| available(root))
}

/// `MemFree:  123 kB`, by itself or after `Node 0`, in bytes.
fn entry(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.split_once(name))?.1;
    rest.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// What each group from this program's own up to the root leaves of its limit, in either version
/// (Documentation/admin-guide/cgroup-v2.rst, memory.max; cgroup-v1/memory.rst).
fn of_groups(root: &Root) -> Vec<u64> {
    let groups = root.maybe("proc/self/cgroup").unwrap_or_default();
    let left = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (hierarchy, limit, usage) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max", "memory.current"),
            first if first.split(',').any(|name| name == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => return None,
        };
        let path = path.trim_matches('/');
        let ends = path.char_indices().filter(|(_, c)| *c == '/').map(|(at, _)| at).chain([path.len()]);
        let number = |end, file: &str| root.number(&format!("{hierarchy}/{}/{file}", &path[..end]));
        let cached = |end| {
            let text = root.maybe(&format!("{hierarchy}/{}/memory.stat", &path[..end])).unwrap_or_default();
            CACHED
                .iter()
                .filter_map(|name| text.lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok()))
                .sum()
        };
        // A group without a limit says `max`, which is no number.
        let left = |end| Some(number(end, limit)?.saturating_sub(number(end, usage)?.saturating_sub(cached(end))));
        ends.filter_map(left).min()
    };
    groups.lines().filter_map(left).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::tests::machine;

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal: 4000 kB\nMemFree: 50 kB\nMemAvailable: 3000 kB\n");

    #[test]
    fn a_machine_has_what_it_says() {
        let (_folder, root) = machine(&[MEMINFO]);
        assert_eq!(available(&root), 3000 << 10);
        let (_folder, root) = machine(&[]);
        assert_eq!(available(&root), 0);
    }

    #[test]
    fn the_narrowest_group_counts() {
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
    fn a_node_has_memory_of_its_own() {
        let node = "sys/devices/system/node/node1/meminfo";
        let (_folder, root) = machine(&[MEMINFO, (node, "Node 1 MemTotal: 9 kB\nNode 1 MemFree:  7 kB\n")]);
        assert_eq!((free_of_node(&root, 1), free_of_node(&root, 0)), (7 << 10, 3000 << 10));
    }
}
