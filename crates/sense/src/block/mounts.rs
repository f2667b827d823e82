//! /proc/self/mountinfo and statvfs(3): mounted file systems, their space and inodes, and which of them are full.

use super::mountinfo::{self, MountInfo, MountWatch};
use super::statvfs::{FsSpace, StatvfsCalls};
use crate::{Root, Source, SourceError, SourceInfo};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use whyslow_model::catalogue::Mount;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// File systems that hold no files of users.
const PSEUDO: &[&str] = &[
    "autofs",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nsfs",
    "proc",
    "pstore",
    "resctrl",
    "rootfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smackfs",
    "sysfs",
    "tracefs",
];

/// A file system is full if at most one byte in this many is available.
const FULL_BELOW: u64 = 50;

#[derive(Default)]
pub(super) struct MountTable {
    watch: MountWatch,
    /// The rows without the space.
    mounted: Vec<(Mount, MountInfo)>,
    statvfs: StatvfsCalls,
}

impl Source for MountTable {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("proc/self/mountinfo", "mounted file systems, their space and inodes")
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        if let Some(lines) = self.watch.changed(root)? {
            self.mounted = visible(lines).map(|line| (row(root, &line), line)).collect();
            self.statvfs.retain(|point| self.mounted.iter().any(|(_, line)| line.point == point));
        }
        for (row, line) in &self.mounted {
            let mut row = row.clone();
            // A captured tree does not hold the space.
            if let Some(space) = root.is_live().then(|| self.statvfs.space(line)).flatten() {
                fill(&mut row, &space);
            }
            out.block.mount.push(row);
        }
        Ok(())
    }
}

/// The mounts that hold files. Of several on one mount point, the last covers the others.
fn visible(lines: Vec<MountInfo>) -> impl Iterator<Item = MountInfo> {
    let files = lines.into_iter().filter(|m| !PSEUDO.contains(&m.kind.as_str()));
    files.map(|m| (m.point.clone(), m)).collect::<BTreeMap<_, _>>().into_values()
}

fn row(root: &Root, line: &MountInfo) -> Mount {
    Mount {
        device: line.device(root).into(),
        number: line.number.as_str().into(),
        kind: line.kind.as_str().into(),
        options: format!("{},{}", line.options, line.super_options).into(),
        read_only: u64::from(line.has("ro")).into(),
        ..Mount::new(line.point.as_str().into())
    }
}

fn fill(row: &mut Mount, space: &FsSpace) {
    row.size = space.size.into();
    row.free = space.free.into();
    row.available = space.available.into();
    row.inodes = space.inodes.into();
    row.inodes_free = space.inodes_free.into();
}

/// A mount of a full file system, and the device number of its files (st_dev), which with btrfs is not that of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FullMount {
    pub(crate) point: Name,
    pub(crate) device: u64,
}

/// Finds full file systems; remembers which mounts do not respond.
#[derive(Default)]
pub(crate) struct FullMounts {
    calls: StatvfsCalls,
}

impl FullMounts {
    /// The mounts of full file systems that can be written to.
    pub(crate) fn read(&mut self, root: &Root) -> Result<Vec<FullMount>, SourceError> {
        root.require_live()?;
        let lines: Vec<MountInfo> = visible(mountinfo::read(root)?).filter(|line| !line.has("ro")).collect();
        self.calls.retain(|point| lines.iter().any(|line| line.point == point));
        let full = lines.iter().filter(|line| self.calls.space(line).is_some_and(|space| is_full(&space)));
        let device = |line: &MountInfo| Some(fs::metadata(&line.point).ok()?.dev());
        Ok(full
            .filter_map(|line| Some(FullMount { point: line.point.as_str().into(), device: device(line)? }))
            .collect())
    }
}

/// By what df calls used and available.
fn is_full(space: &FsSpace) -> bool {
    let used = space.size.saturating_sub(space.free);
    space.size > 0 && space.available < used.saturating_add(space.available) / FULL_BELOW
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CapturedTree, read};

    #[test]
    fn a_mount_is_known_by_the_kernels_device_name() {
        let tree = CapturedTree::of(&[(
            "proc/self/mountinfo",
            "1 0 253:0 / / rw,relatime - ext4 /dev/mapper/root ro,errors=remount-ro\n\
             2 1 0:30 / /run rw - tmpfs tmpfs rw\n\
             3 1 0:31 / /nfs rw - nfs4 server:/export rw\n\
             4 1 0:20 / /proc rw - proc proc rw\n\
             5 1 0:33 / /data rw - btrfs /dev/sdb rw\n\
             6 2 0:34 / /run rw - tmpfs none rw\n",
        )]);
        tree.link("sys/dev/block/253:0", "../../devices/virtual/block/dm-0");
        tree.write("sys/class/block/sdb/size", "1\n");
        let (outcome, s) = tree.read(&mut MountTable::default());
        let rows = s.block.mount.clone();
        assert_eq!(outcome, Ok(()));
        let seen: Vec<_> = rows.iter().map(|m| (&*m.point, m.device.get().unwrap())).collect();
        assert_eq!(seen, [("/", "dm-0"), ("/data", "sdb"), ("/nfs", "server:/export"), ("/run", "tmpfs")]);
        assert_eq!(rows[0].options.get(), Some("rw,relatime,ro,errors=remount-ro"));
        assert_eq!((rows[0].read_only.get(), rows[1].read_only.get()), (Some(1.0), Some(0.0)));
        assert_eq!(rows[3].number.get(), Some("0:34"));
        assert!(rows.iter().all(|m| m.size.get().is_none()));
    }

    #[test]
    fn the_root_of_the_live_machine_has_space() {
        let rows = read(&mut MountTable::default()).block.mount.clone();
        let top = rows.iter().find(|m| &*m.point == "/").unwrap();
        assert!(top.size.get() > Some(0.0) && top.size.get() >= top.free.get());
        assert!(top.free.get() >= top.available.get());
    }

    #[test]
    fn a_reserve_for_root_is_no_space() {
        let space = |free, available| FsSpace { size: 1000, free, available, inodes: 0, inodes_free: 0 };
        assert!(is_full(&space(50, 0)) && is_full(&space(60, 10)));
        assert!(!is_full(&space(100, 50)));
        assert!(!is_full(&FsSpace { size: 0, ..space(0, 0) }), "proc and the like have no size");
    }
}
