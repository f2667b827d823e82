//! /proc/self/mountinfo and statvfs(3): mounted file systems, their space and inodes, and full file systems.

use super::mountinfo::{self, MountInfo, MountWatch};
use super::remote_mounts::{self, Space};
use super::statvfs::FsSpace;
use crate::{Root, Source, SourceError, SourceInfo};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::mem::MaybeUninit;
use whyslow_model::catalogue::Mount;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// File systems that hold no user files.
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
    /// Rows without the space fields.
    mounted: Vec<(Mount, MountInfo)>,
}

impl Source for MountTable {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("proc/self/mountinfo", "mounted file systems, their space and inodes")
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        if let Some(lines) = self.watch.changed(root)? {
            self.mounted = visible(lines).map(|line| (row(root, &line), line)).collect();
        }
        let mut silent: Vec<&str> = Vec::new();
        for (row, line) in &self.mounted {
            let mut row = row.clone();
            // A captured tree does not contain statvfs results.
            let space = if root.is_live() { remote_mounts::space(root, line) } else { Space::Unknown };
            match space {
                Space::Known(space) => fill(&mut row, &space),
                Space::Silent => silent.push(&line.point),
                Space::Unknown => {}
            }
            out.block.mount.push(row);
        }
        if silent.is_empty() {
            return Ok(());
        }
        let which = silent.join(", ");
        Err(SourceError::Failed(format!(
            "{which}: the server or FUSE program does not answer, so the space is unknown"
        )))
    }
}

/// Lists the mounts that hold files. If several share a mount point, the last covers the others.
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

/// A mount of a full file system, and the device number of its files (st_dev), which with btrfs differs from that in mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FullMount {
    pub(crate) point: Name,
    pub(crate) device: u64,
}

impl FullMount {
    /// Lists the writable mounts of full file systems.
    pub(crate) fn read_all(root: &Root) -> Result<Vec<Self>, SourceError> {
        root.require_live()?;
        let lines = visible(mountinfo::read(root)?).filter(|line| !line.has("ro"));
        let full =
            lines.filter(|line| matches!(remote_mounts::space(root, line), Space::Known(space) if is_full(&space)));
        let device = |line: &MountInfo| statx_device(&line.point);
        Ok(full.filter_map(|line| Some(Self { point: line.point.as_str().into(), device: device(&line)? })).collect())
    }
}

/// Returns the device number of files (st_dev), cached by the kernel.
fn statx_device(point: &str) -> Option<u64> {
    let point = CString::new(point).ok()?;
    let mut answer = MaybeUninit::<libc::statx>::zeroed();
    let flags = libc::AT_STATX_DONT_SYNC | libc::AT_NO_AUTOMOUNT;
    // SAFETY: `point` is a C string and `answer` has room for one statx; both outlive the call.
    let status = unsafe { libc::statx(libc::AT_FDCWD, point.as_ptr(), flags, libc::STATX_TYPE, answer.as_mut_ptr()) };
    // SAFETY: all bytes were zero before the call, which is a value of this type.
    let answer = unsafe { answer.assume_init() };
    (status == 0).then(|| libc::makedev(answer.stx_dev_major, answer.stx_dev_minor))
}

/// Whether a file system is full, by df's definition of used and available.
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
        let tree = CapturedTree::with_files(&[(
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
