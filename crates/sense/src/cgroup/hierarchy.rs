//! Where the hierarchies of control groups are mounted, and the groups in them (cgroups(7)).

use crate::Root;
use crate::block::mountinfo::MountLine;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// The controllers of version 1 that we read.
const CONTROLLERS: &[&str] = &["cpu", "cpuacct", "memory", "blkio", "pids"];

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// Where it is mounted, relative to the root.
    point: String,
    /// The path of the group at the mount point: `/`, except in a container that shares the host's cgroup namespace.
    top: String,
    /// Which version it is.
    pub(super) version: Version,
}

/// How many groups each controller of version 1 has: `subsys_name hierarchy num_cgroups enabled` (cgroups(7)).
pub(super) struct Counts(String);

impl Counts {
    /// As they are now; none where the kernel does not tell.
    pub(super) fn read(root: &Root) -> Self {
        Self(root.kept_text("proc/cgroups").unwrap_or_default())
    }
}

/// The two generations of control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// A hierarchy of version 1.
    V1 {
        /// Those of its controllers that we read.
        controllers: Vec<&'static str>,
    },
    /// The unified hierarchy.
    V2,
}

impl Version {
    /// The version's name in the catalogue.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::V1 { .. } => "v1",
            Self::V2 => "v2",
        }
    }
}

/// The hierarchies with something to read, version 2 first.
pub(super) fn of_mounts(mut mounts: Vec<MountLine>) -> Vec<Hierarchy> {
    mounts.retain(|m| version(m).is_some());
    // A hierarchy can be mounted more than once, in whole or in part; the mount that shows most of it is read.
    mounts.sort_by_key(|m| m.root.len());
    let mut numbers = Vec::new();
    mounts.retain(|m| {
        let first = !numbers.contains(&m.number);
        numbers.push(m.number.clone());
        first
    });
    let mut found: Vec<Hierarchy> = mounts.iter().filter_map(hierarchy).collect();
    found.sort_by_key(|h| h.version != Version::V2);
    found
}

fn hierarchy(mount: &MountLine) -> Option<Hierarchy> {
    let relative = |path: &str| path.trim_matches('/').to_owned();
    Some(Hierarchy { point: relative(&mount.point), top: relative(&mount.root), version: version(mount)? })
}

/// `None` for a hierarchy without a controller that we read (`name=systemd`, freezer), and for other file systems.
fn version(mount: &MountLine) -> Option<Version> {
    let controllers = || CONTROLLERS.iter().copied().filter(|c| mount.has(c)).collect::<Vec<_>>();
    match mount.kind.as_str() {
        "cgroup2" => Some(Version::V2),
        "cgroup" => Some(Version::V1 { controllers: controllers() }).filter(|_| !controllers().is_empty()),
        _ => None,
    }
}

impl Hierarchy {
    /// All groups, the top one included, depth-first: their paths below the mount point, each with a leading `/` but
    /// the top, which is empty. Names that are not UTF-8 are passed over.
    pub(super) fn walk(&self, root: &Root) -> Vec<String> {
        let mut groups = Vec::new();
        let mut next = vec![String::new()];
        while let Some(below) = next.pop() {
            next.extend(children(root, &self.folder(&below)).into_iter().map(|name| format!("{below}/{name}")));
            groups.push(below);
        }
        groups
    }

    /// How many groups there are, which changes as they come and go; `None` where the kernel does not tell.
    pub(super) fn count(&self, root: &Root, counts: &Counts) -> Option<u64> {
        match &self.version {
            Version::V1 { controllers } => {
                let mut lines = counts.0.lines().map(|line| line.split_ascii_whitespace());
                let mut words = lines.find(|words| words.clone().next() == controllers.first().copied())?;
                words.nth(2)?.parse().ok()
            }
            Version::V2 => {
                let text = root.kept_text(&format!("{}/cgroup.stat", self.point)).ok()?;
                super::parse::keyed(&text).find(|(name, _)| *name == "nr_descendants").map(|(_, count)| count)
            }
        }
    }

    /// The folder of a group, relative to the root.
    pub(super) fn folder(&self, below: &str) -> String {
        format!("{}{below}", self.point)
    }

    /// The path of a group as /proc/PID/cgroup has it.
    pub(super) fn group(&self, below: &str) -> String {
        match (self.top.as_str(), below) {
            ("", "") => "/".into(),
            ("", below) => below.to_owned(),
            (top, below) => format!("/{top}{below}"),
        }
    }
}

/// The folders in a folder.
fn children(root: &Root, folder: &str) -> Vec<String> {
    let path = root.at(folder);
    // The links to a folder are its name, its `.` and the `..` of each folder in it, where a file system counts them
    // at all: most groups have none below, and are spared the listing of their forty files.
    if fs::metadata(&path).is_ok_and(|m| m.nlink() == 2) {
        return Vec::new();
    }
    let entries = fs::read_dir(&path).into_iter().flatten().flatten();
    let folders = entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.filter_map(|e| e.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::mountinfo;

    fn found(mountinfo: &str) -> Vec<Hierarchy> {
        of_mounts(mountinfo::parse(mountinfo))
    }

    #[test]
    fn a_mixed_machine_has_both_versions() {
        let h = found(
            "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
             32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             33 31 0:30 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n\
             34 31 0:31 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer\n\
             35 31 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        );
        let seen: Vec<_> = h.iter().map(|h| (h.point.as_str(), h.version.name())).collect();
        assert_eq!(seen, [("sys/fs/cgroup/unified", "v2"), ("sys/fs/cgroup/cpu,cpuacct", "v1")]);
        assert_eq!(h[1].version, Version::V1 { controllers: vec!["cpu", "cpuacct"] });
    }

    #[test]
    fn of_several_mounts_the_widest_is_read() {
        let h = found(
            "1 0 0:30 /docker/x /box/sys/fs/cgroup ro - cgroup2 cgroup rw\n\
             2 0 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
        );
        assert_eq!(h.len(), 1);
        assert_eq!(
            (h[0].folder("/a"), h[0].group("/a"), h[0].group("")),
            ("sys/fs/cgroup/a".into(), "/a".into(), "/".into())
        );
    }

    #[test]
    fn a_part_of_a_hierarchy_keeps_the_full_paths() {
        let h = found("1 0 0:30 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
        assert_eq!((h[0].group(""), h[0].group("/app")), ("/docker/x".into(), "/docker/x/app".into()));
    }
}
