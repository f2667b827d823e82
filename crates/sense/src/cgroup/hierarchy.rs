//! The mount points of the cgroup hierarchies, and the cgroups in them (cgroups(7)).

use super::files::flat_keyed;
use crate::block::mountinfo::{self, MountInfo, MountWatch};
use crate::{Root, SourceError};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use whyslow_model::value::Name;

/// The version 1 controllers that are read.
const CONTROLLERS: &[&str] = &["cpu", "cpuacct", "memory", "blkio", "pids"];
/// Time for which a list is valid while the kernel's count is unchanged: one cgroup can appear as another is removed.
const LIST_TTL: Duration = Duration::from_secs(5);

/// All hierarchies and their cgroups, which are listed again only when the kernel's count of them changes.
#[derive(Default)]
pub(super) struct Hierarchies {
    watch: MountWatch,
    /// Version 2 first.
    pub(super) all: Vec<ListedHierarchy>,
}

pub(super) struct ListedHierarchy {
    pub(super) hierarchy: CgroupHierarchy,
    /// Paths of its cgroups below the mount point.
    pub(super) groups: Vec<String>,
    /// The kernel's count and the time when they were listed; `None` if they have to be listed again.
    listed: Option<(Option<u64>, Instant)>,
}

impl Hierarchies {
    /// Lists the hierarchies and cgroups that may have changed. Returns whether any list did.
    ///
    /// # Errors
    /// Fails if the mounts cannot be read or there is no hierarchy.
    pub(super) fn refresh(&mut self, root: &Root) -> Result<bool, SourceError> {
        let mut changed = false;
        if let Some(hierarchies) = self.mounted(root)?
            && !self.all.iter().map(|listed| &listed.hierarchy).eq(&hierarchies)
        {
            let unlisted = |hierarchy| ListedHierarchy { hierarchy, groups: Vec::new(), listed: None };
            self.all = hierarchies.into_iter().map(unlisted).collect();
            changed = true;
        }
        if self.all.is_empty() {
            require_mounted(&self.hidden(root))?;
            return Err(SourceError::Absent("no cgroup hierarchy with a controller is mounted".into()));
        }
        let counts = root.polled_text("proc/cgroups").unwrap_or_default();
        for listed in &mut self.all {
            changed |= listed.refresh(root, &counts);
        }
        Ok(changed)
    }

    /// Returns the version 1 controllers that have cgroups besides the root, but whose hierarchy is not mounted here, with the
    /// number of these cgroups. A captured /proc may lack the mounts.
    pub(super) fn hidden(&self, root: &Root) -> Vec<(&'static str, u64)> {
        if !root.is_live() {
            return Vec::new();
        }
        let counts = root.polled_text("proc/cgroups").unwrap_or_default();
        hidden(&counts, self.all.iter().map(|listed| &listed.hierarchy.version))
    }

    /// Returns the hierarchies, if they may have changed since the last call.
    fn mounted(&mut self, root: &Root) -> Result<Option<Vec<CgroupHierarchy>>, SourceError> {
        let mounted = self.watch.changed(root).map(|mounts| mounts.map(of_mounts));
        // A captured tree with some files of /sys may lack the mounts.
        if root.is_live() || matches!(&mounted, Ok(Some(hierarchies)) if !hierarchies.is_empty()) {
            return mounted;
        }
        Ok(Some(of_folders(root)))
    }

    /// Lists everything again at the next refresh, because a listed cgroup was removed.
    pub(super) fn invalidate(&mut self) {
        for listed in &mut self.all {
            listed.listed = None;
        }
    }
}

/// Fails if controllers are hidden.
///
/// # Errors
/// Controllers are in use, but their hierarchies are not mounted here.
pub(super) fn require_mounted(hidden: &[(&str, u64)]) -> Result<(), SourceError> {
    if hidden.is_empty() {
        return Ok(());
    }
    let hidden: Vec<&str> = hidden.iter().map(|(controller, _)| *controller).collect();
    Err(SourceError::NotPermitted {
        why: format!("the cgroup hierarchies of these controllers are not mounted: {}", hidden.join(", ")),
        remedy: "run whyslow where /sys/fs/cgroup shows them".into(),
    })
}

impl ListedHierarchy {
    fn refresh(&mut self, root: &Root, counts: &str) -> bool {
        let count = self.hierarchy.count(root, counts);
        if let Some((count_then, at)) = self.listed
            && count.is_some()
            && count == count_then
            && at.elapsed() < LIST_TTL
        {
            return false;
        }
        let groups = self.hierarchy.walk(root);
        self.listed = Some((count, Instant::now()));
        let changed = groups != self.groups;
        self.groups = groups;
        changed
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CgroupHierarchy {
    /// Relative to the root.
    mount_point: String,
    /// The path of the cgroup at the mount point: `/`, except in a container that shares the host's cgroup namespace.
    top: String,
    pub(super) version: Version,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// Version 1, with the controllers that are read.
    V1 {
        controllers: Vec<&'static str>,
    },
    V2,
}

impl Version {
    fn has(&self, controller: &str) -> bool {
        matches!(self, Self::V1 { controllers } if controllers.contains(&controller))
    }

    /// Returns the version's name in the catalogue.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::V1 { .. } => "v1",
            Self::V2 => "v2",
        }
    }
}

/// Returns the controllers that /proc/cgroups (name, number of the hierarchy, cgroups) shows in use in version 1 and that no
/// mounted hierarchy has, each with the number of its cgroups besides the root, which has no limits. Version 2 controllers have
/// hierarchy 0.
fn hidden<'v>(proc_cgroups: &str, mounted: impl Iterator<Item = &'v Version> + Clone) -> Vec<(&'static str, u64)> {
    let in_use = proc_cgroups.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let name = words.next()?;
        let (hierarchy, cgroups): (u64, u64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let controller = CONTROLLERS.iter().copied().find(|controller| *controller == name)?;
        (hierarchy > 0 && cgroups > 1).then_some((controller, cgroups - 1))
    });
    in_use.filter(|(controller, _)| !mounted.clone().any(|version| version.has(controller))).collect()
}

/// Selects the hierarchies with something to read, version 2 first.
fn of_mounts(mut mounts: Vec<MountInfo>) -> Vec<CgroupHierarchy> {
    mounts.retain(|m| version(m).is_some());
    // If a hierarchy has several mounts, the one that shows most of it is read.
    mounts.sort_by_key(|m| m.root.len());
    let mut numbers = Vec::new();
    mounts.retain(|m| {
        let first = !numbers.contains(&m.number);
        numbers.push(m.number.clone());
        first
    });
    let mut found: Vec<CgroupHierarchy> = mounts.iter().filter_map(hierarchy).collect();
    found.sort_by_key(|h| h.version != Version::V2);
    found
}

/// Finds the hierarchies of a captured tree by the usual mount points: those of version 1 are named after their controllers.
fn of_folders(root: &Root) -> Vec<CgroupHierarchy> {
    const TOP: &str = "sys/fs/cgroup";
    let hierarchy = |mount_point: String, version| CgroupHierarchy { mount_point, top: String::new(), version };
    let mut found = Vec::new();
    let mut unified = TOP.to_owned();
    for name in children(root, TOP) {
        let controllers: Vec<_> =
            CONTROLLERS.iter().copied().filter(|controller| name.split(',').any(|own| own == *controller)).collect();
        if !controllers.is_empty() {
            found.push(hierarchy(format!("{TOP}/{name}"), Version::V1 { controllers }));
        }
    }
    if !found.is_empty() {
        unified.push_str("/unified");
    }
    if root.at(&unified).is_dir() {
        found.insert(0, hierarchy(unified, Version::V2));
    }
    found
}

fn hierarchy(mount: &MountInfo) -> Option<CgroupHierarchy> {
    let relative = |path: &str| path.trim_matches('/').to_owned();
    Some(CgroupHierarchy { mount_point: relative(&mount.point), top: relative(&mount.root), version: version(mount)? })
}

/// Returns `None` for a hierarchy whose controllers are not read (`name=systemd`, freezer), and for other file systems.
fn version(mount: &MountInfo) -> Option<Version> {
    match mount.kind.as_str() {
        "cgroup2" => Some(Version::V2),
        "cgroup" => {
            let controllers: Vec<_> = CONTROLLERS.iter().copied().filter(|c| mount.has(c)).collect();
            (!controllers.is_empty()).then_some(Version::V1 { controllers })
        }
        _ => None,
    }
}

impl CgroupHierarchy {
    /// Lists the paths of all cgroups below the mount point, depth-first, each with a leading `/`; the path of the top one is
    /// empty. Skips names that are not UTF-8.
    fn walk(&self, root: &Root) -> Vec<String> {
        let mut groups = Vec::new();
        let mut next = vec![String::new()];
        while let Some(below) = next.pop() {
            next.extend(children(root, &self.directory(&below)).into_iter().map(|name| format!("{below}/{name}")));
            groups.push(below);
        }
        groups
    }

    /// Returns the kernel's count of cgroups, from /proc/cgroups (`subsys_name hierarchy num_cgroups enabled`) or cgroup.stat.
    fn count(&self, root: &Root, proc_cgroups: &str) -> Option<u64> {
        match &self.version {
            Version::V1 { controllers } => {
                let mut lines = proc_cgroups.lines().map(|line| line.split_ascii_whitespace());
                let mut words = lines.find(|words| words.clone().next() == controllers.first().copied())?;
                words.nth(2)?.parse().ok()
            }
            Version::V2 => {
                let text = root.polled_text(&format!("{}/cgroup.stat", self.mount_point)).ok()?;
                flat_keyed(&text).find(|(key, _)| *key == "nr_descendants").map(|(_, count)| count)
            }
        }
    }

    /// Lists all its cgroups with the kernel's numbers.
    fn numbered(&self, root: &Root) -> Vec<(u64, Name)> {
        let number = |below: &str| Some(fs::metadata(root.at(self.directory(below))).ok()?.ino());
        let all = self.walk(root);
        all.iter().filter_map(|below| Some((number(below)?, self.group(below).as_str().into()))).collect()
    }

    /// Returns the directory of a cgroup, relative to the root.
    pub(super) fn directory(&self, below: &str) -> String {
        format!("{}{below}", self.mount_point)
    }

    /// Returns the path of a cgroup as in /proc/PID/cgroup.
    pub(super) fn group(&self, below: &str) -> String {
        match (self.top.as_str(), below) {
            ("", "") => "/".into(),
            ("", below) => below.to_owned(),
            (top, below) => format!("/{top}{below}"),
        }
    }
}

fn children(root: &Root, directory: &str) -> Vec<String> {
    let path = root.at(directory);
    // A directory has a link for its name, its `.` and the `..` of each subdirectory, on file systems that count them. With two
    // links there are no subdirectories, and the forty files need not be listed.
    if fs::metadata(&path).is_ok_and(|m| m.nlink() == 2) {
        return Vec::new();
    }
    let entries = fs::read_dir(&path).into_iter().flatten().flatten();
    let directories = entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.filter_map(|e| e.file_name().into_string().ok()).collect()
}

/// Lists the cgroups that block requests are charged to, by the kernel's number (the inode of the directory).
///
/// # Errors
/// Fails if the mounts cannot be read.
pub(crate) fn block_groups(root: &Root) -> Result<Vec<(u64, Name)>, SourceError> {
    Ok(NumberedGroups::new(root)?.of_controller(root, "blkio"))
}

/// The cgroups of each hierarchy by the kernel's numbers.
pub(super) struct NumberedGroups(Vec<CgroupHierarchy>);

impl NumberedGroups {
    /// Reads the mounted hierarchies.
    ///
    /// # Errors
    /// Fails if the mounts cannot be read.
    pub(super) fn new(root: &Root) -> Result<Self, SourceError> {
        Ok(Self(of_mounts(mountinfo::read(root)?)))
    }

    /// Lists the cgroups of version 2.
    pub(super) fn unified(&self, root: &Root) -> Vec<(u64, Name)> {
        let unified = self.0.iter().find(|hierarchy| hierarchy.version == Version::V2);
        unified.map_or_else(Vec::new, |hierarchy| hierarchy.numbered(root))
    }

    /// Lists the cgroups of the hierarchy with this version 1 controller, or those of version 2 if there is none.
    pub(super) fn of_controller(&self, root: &Root, controller: &str) -> Vec<(u64, Name)> {
        let has =
            |version: &Version| matches!(version, Version::V1 { controllers } if controllers.contains(&controller));
        let own = self.0.iter().find(|hierarchy| has(&hierarchy.version));
        own.map_or_else(|| self.unified(root), |hierarchy| hierarchy.numbered(root))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(mountinfo: &str) -> Vec<CgroupHierarchy> {
        of_mounts(mountinfo::parse(mountinfo))
    }

    #[test]
    fn controllers_that_are_in_use_and_not_mounted_are_hidden() {
        let counts = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n\
            cpuset\t3\t9\t1\ncpu\t1\t9\t1\nmemory\t4\t2\t1\nblkio\t5\t1\t1\npids\t0\t40\t1\n";
        let cpu = Version::V1 { controllers: vec!["cpu", "cpuacct"] };
        assert_eq!(hidden(counts, [Version::V2].iter()), [("cpu", 8), ("memory", 1)]);
        assert_eq!(hidden(counts, [Version::V2, cpu].iter()), [("memory", 1)]);
        assert_eq!(hidden("", [].iter()), []);
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
        let seen: Vec<_> = h.iter().map(|h| (h.mount_point.as_str(), h.version.name())).collect();
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
            (h[0].directory("/a"), h[0].group("/a"), h[0].group("")),
            ("sys/fs/cgroup/a".into(), "/a".into(), "/".into())
        );
    }

    #[test]
    fn a_partly_mounted_hierarchy_keeps_the_full_paths() {
        let h = found("1 0 0:30 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
        assert_eq!((h[0].group(""), h[0].group("/app")), ("/docker/x".into(), "/docker/x/app".into()));
    }
}
