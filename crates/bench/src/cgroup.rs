//! The memory cgroups of this process, version 1 (cgroup-v1/memory.rst) and 2 (Documentation/admin-guide/cgroup-v2.rst).

use whyslow_sense::Root;

/// Where a version keeps its cgroups, and the files with a cgroup's limit and usage.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub(crate) root: &'static str,
    pub(crate) limit: &'static str,
    pub(crate) usage: &'static str,
}

const V1: Hierarchy =
    Hierarchy { root: "sys/fs/cgroup/memory", limit: "memory.limit_in_bytes", usage: "memory.usage_in_bytes" };
const V2: Hierarchy = Hierarchy { root: "sys/fs/cgroup", limit: "memory.max", usage: "memory.current" };

/// This process's cgroup in each hierarchy that may control memory, version 1 first: `/user.slice/x`.
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

    #[test]
    fn the_own_cgroup_is_found_in_both_versions() {
        let text = "9:blkio:/a\n4:cpu,memory:/user.slice/x\n0::/init.scope\n";
        let (_folder, root) = machine(&[("proc/self/cgroup", text)]);
        assert_eq!(own_memory_cgroups(&root), [(&V1, "/user.slice/x".into()), (&V2, "/init.scope".into())]);
        let (_folder, root) = machine(&[]);
        assert_eq!(own_memory_cgroups(&root), []);
    }
}
