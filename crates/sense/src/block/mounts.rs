//! /proc/self/mountinfo and statvfs(3): mounted file systems, their space and inodes.

use super::mount_watch::MountWatch;
use super::mountinfo::MountLine;
use super::statvfs::{Space, Spaces};
use crate::{Miss, Root, Source};
use std::collections::BTreeMap;
use whyslow_model::catalogue::Mount;
use whyslow_model::snapshot::Snapshot;

/// File systems that hold no files of anybody's: windows on the kernel.
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

/// The source of family `mount`.
#[derive(Default)]
pub(super) struct Mounts {
    watch: MountWatch,
    /// The mounts as they stand: all of their rows but the space.
    mounted: Vec<(Mount, MountLine)>,
    spaces: Spaces,
}

impl Source for Mounts {
    fn name(&self) -> &'static str {
        "proc/self/mountinfo"
    }

    fn tells(&self) -> &'static str {
        "mounted file systems, their space and inodes"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        if let Some(lines) = self.watch.changed(root)? {
            self.mounted = visible(lines).map(|line| (row(root, &line), line)).collect();
            self.spaces.forget_all_but(|point| self.mounted.iter().any(|(_, line)| line.point == point));
        }
        for (row, line) in &self.mounted {
            let mut row = row.clone();
            // The space of a captured machine's mounts is not in its files.
            if let Some(space) = root.is_live().then(|| self.spaces.of(line)).flatten() {
                fill(&mut row, &space);
            }
            out.block.mount.push(row);
        }
        Ok(())
    }
}

/// The mounts that hold files. Where several are mounted on one point, the last one covers the others.
fn visible(lines: Vec<MountLine>) -> impl Iterator<Item = MountLine> {
    let files = lines.into_iter().filter(|m| !PSEUDO.contains(&m.kind.as_str()));
    files.map(|m| (m.point.clone(), m)).collect::<BTreeMap<_, _>>().into_values()
}

fn row(root: &Root, line: &MountLine) -> Mount {
    Mount {
        device: line.device(root).into(),
        number: line.number.as_str().into(),
        kind: line.kind.as_str().into(),
        options: format!("{},{}", line.options, line.super_options).into(),
        read_only: u64::from(line.has("ro")).into(),
        ..Mount::new(line.point.as_str().into())
    }
}

fn fill(row: &mut Mount, space: &Space) {
    row.size = space.size.into();
    row.free = space.free.into();
    row.available = space.available.into();
    row.inodes = space.inodes.into();
    row.inodes_free = space.inodes_free.into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::fixture::Tree;

    fn read(root: &Root) -> Vec<Mount> {
        let mut s = Snapshot::default();
        Mounts::default().read(root, &mut s).unwrap();
        s.block.mount
    }

    #[test]
    fn a_mount_is_known_by_the_kernels_device_name() {
        let tree = Tree::of(&[(
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
        let rows = read(&tree.root());
        let seen: Vec<_> = rows.iter().map(|m| (&*m.point, m.device.get().unwrap())).collect();
        assert_eq!(seen, [("/", "dm-0"), ("/data", "sdb"), ("/nfs", "server:/export"), ("/run", "tmpfs")]);
        assert_eq!(rows[0].options.get(), Some("rw,relatime,ro,errors=remount-ro"));
        assert_eq!((rows[0].read_only.get(), rows[1].read_only.get()), (Some(1.0), Some(0.0)));
        assert_eq!(rows[3].number.get(), Some("0:34"));
        assert!(rows.iter().all(|m| m.size.get().is_none()));
    }

    #[test]
    fn the_root_of_this_machine_has_space() {
        let rows = read(&Root::live());
        let top = rows.iter().find(|m| &*m.point == "/").unwrap();
        assert!(top.size.get() > Some(0.0) && top.size.get() >= top.free.get());
        assert!(top.free.get() >= top.available.get());
    }
}
