//! Devices that a file system uses besides the one it is mounted from: /sys/fs/btrfs, /sys/fs/ext4, and the mount options of XFS
//! (Documentation/admin-guide/ext4.rst, xfs.rst; Documentation/ABI/testing/sysfs-fs-ext4; fs/btrfs/sysfs.c).

use super::device;
use super::mountinfo::{self, MountInfo};
use crate::{Root, SourceError, SourceInfo};
use std::collections::BTreeMap;
use whyslow_model::catalogue::FileSystemDevice;
use whyslow_model::key::LinkKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

pub(super) const INFO: SourceInfo =
    SourceInfo::new("sys/fs", "journals of file systems, and the devices of those on several").slow();

/// The longest name of a kernel thread before Linux 5.17 (TASK_COMM_LEN).
const SHORT_NAME: usize = 15;

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    // A file system can be mounted at several points.
    let mounts = mountinfo::read(root)?;
    let mounted: BTreeMap<Name, &MountInfo> = mounts.iter().map(|mount| (mount.device(root), mount)).collect();
    for (device, mount) in &mounted {
        match mount.kind.as_str() {
            "ext4" | "ext3" => out.block.file_system_device.extend(ext4_journal(root, device)),
            "xfs" => out.block.file_system_device.extend(xfs_devices(root, device, mount)),
            "btrfs" => out.block.file_system_device.extend(btrfs_devices(root, device)),
            _ => {}
        }
    }
    Ok(())
}

fn part(device: &str, lower: &str, role: &str) -> FileSystemDevice {
    let link = LinkKey { upper: device.into(), lower: lower.into() };
    FileSystemDevice { role: role.into(), ..FileSystemDevice::new(link) }
}

/// Finds the journal device by the name of the journal thread: `jbd2/sda1-8` (device and inode), or `jbd2/sdb1` for an external
/// journal (fs/jbd2/journal.c: `jbd2_journal_init_dev`, `jbd2_journal_init_inode`). Returns `None` if the name does not identify
/// the device.
fn ext4_journal(root: &Root, device: &str) -> Option<FileSystemDevice> {
    let task = root.word(&format!("sys/fs/ext4/{}/journal_task", device::entry(device)))?;
    if task == "<none>" {
        return Some(part(device, device, "no journal"));
    }
    let pid: u32 = task.parse().ok()?;
    let comm = root.maybe(&format!("proc/{pid}/comm"))?;
    let name = comm.trim_end_matches('\n').strip_prefix("jbd2/")?;
    let (own, name) = (device::entry(device), device::entry(name));
    if name.strip_prefix(&own).is_some_and(is_inode) {
        return Some(part(device, device, "journal"));
    }
    let exists = |name: &str| root.at(format!("sys/class/block/{name}")).exists();
    (comm.trim_end().len() < SHORT_NAME && exists(&name)).then(|| part(device, &device::kernel_name(&name), "journal"))
}

/// Whether the text is an inode suffix: `-8`, or `-` if the name was truncated.
fn is_inode(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|inode| inode.bytes().all(|b| b.is_ascii_digit()))
}

/// Reads the external log and the realtime device from the mount options; without `logdev` the log is internal.
fn xfs_devices(root: &Root, device: &str, mount: &MountInfo) -> Vec<FileSystemDevice> {
    let option = |name: &str| mount.super_options.split(',').find_map(|option| option.strip_prefix(name));
    let other = |path: &str| device::by_path(root, path).unwrap_or_else(|| path.to_owned());
    let log = option("logdev=").map_or_else(|| device.to_owned(), other);
    let realtime = option("rtdev=").map(other);
    std::iter::once(part(device, &log, "journal"))
        .chain(realtime.map(|realtime| part(device, &realtime, "realtime")))
        .collect()
}

fn btrfs_devices(root: &Root, device: &str) -> Vec<FileSystemDevice> {
    let own = device::entry(device);
    let devices = |id: &String| root.list(&format!("sys/fs/btrfs/{id}/devices"));
    let file_system = root.list("sys/fs/btrfs").into_iter().find(|id| devices(id).contains(&own));
    let Some(id) = file_system else { return Vec::new() };
    // The directory also contains counters. Its subdirectories are the profiles in use; there are two during a conversion.
    let mut profiles = root.list(&format!("sys/fs/btrfs/{id}/allocation/data"));
    profiles.retain(|profile| root.at(format!("sys/fs/btrfs/{id}/allocation/data/{profile}/total_bytes")).exists());
    let profile = (!profiles.is_empty()).then(|| profiles.join(", "));
    devices(&id)
        .iter()
        .map(|lower| FileSystemDevice {
            profile: profile.as_deref().into(),
            ..part(device, &device::kernel_name(lower), "data")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    fn described(tree: &CapturedTree) -> Vec<String> {
        let mut out = Snapshot::default();
        assert_eq!(read(&tree.root(), &mut out), Ok(()));
        let row = |r: &FileSystemDevice| {
            format!("{}: {} {}", r.part, r.role.get().unwrap(), r.profile.get().unwrap_or_default())
                .trim_end()
                .to_owned()
        };
        out.block.file_system_device.iter().map(row).collect()
    }

    #[test]
    fn the_journal_of_ext4_is_where_its_thread_says() {
        let tree = CapturedTree::with_files(&[
            (
                "proc/self/mountinfo",
                "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
                 2 1 8:1 /a /mnt/again rw - ext4 /dev/sda1 rw\n\
                 3 1 8:17 / /b rw - ext4 /dev/sdb1 rw\n\
                 4 1 8:33 / /c rw - ext4 /dev/sdc1 rw\n\
                 5 1 259:1 / /d rw - ext4 /dev/nvme10n1p12 rw\n",
            ),
            ("sys/fs/ext4/sda1/journal_task", "300\n"),
            ("proc/300/comm", "jbd2/sda1-8\n"),
            ("sys/fs/ext4/sdb1/journal_task", "301\n"),
            ("proc/301/comm", "jbd2/sdd1\n"),
            ("sys/fs/ext4/sdc1/journal_task", "<none>\n"),
            ("sys/fs/ext4/nvme10n1p12/journal_task", "302\n"),
            // Truncated to fifteen characters.
            ("proc/302/comm", "jbd2/nvme10n1p1\n"),
            ("sys/class/block/sda1/size", "1\n"),
            ("sys/class/block/sdb1/size", "1\n"),
            ("sys/class/block/sdc1/size", "1\n"),
            ("sys/class/block/sdd1/size", "1\n"),
            ("sys/class/block/nvme10n1p1/size", "1\n"),
            ("sys/class/block/nvme10n1p12/size", "1\n"),
        ]);
        assert_eq!(described(&tree), ["sda1 on sda1: journal", "sdb1 on sdd1: journal", "sdc1 on sdc1: no journal"]);
    }

    #[test]
    fn xfs_has_its_log_inside_unless_an_option_names_a_device() {
        let tree = CapturedTree::with_files(&[
            (
                "proc/self/mountinfo",
                "1 0 8:1 / /a rw - xfs /dev/sda1 rw,attr2\n\
                 2 1 8:17 / /b rw - xfs /dev/sdb1 rw,logdev=/dev/sdc1,rtdev=/dev/sdd\n",
            ),
            ("sys/class/block/sda1/size", "1\n"),
            ("sys/class/block/sdb1/size", "1\n"),
            ("sys/class/block/sdc1/size", "1\n"),
            ("sys/class/block/sdd/size", "1\n"),
        ]);
        assert_eq!(described(&tree), ["sda1 on sda1: journal", "sdb1 on sdc1: journal", "sdb1 on sdd: realtime"]);
    }

    #[test]
    fn btrfs_lists_its_devices_and_how_it_spreads_data() {
        let tree = CapturedTree::with_files(&[
            ("proc/self/mountinfo", "1 0 0:33 / /a rw - btrfs /dev/sdb rw\n"),
            ("sys/class/block/sdb/size", "1\n"),
            ("sys/fs/btrfs/features/raid56", "0\n"),
            ("sys/fs/btrfs/0c9f/devices/sdb/size", "1\n"),
            ("sys/fs/btrfs/0c9f/devices/sdc/size", "1\n"),
            ("sys/fs/btrfs/0c9f/allocation/data/bytes_used", "7\n"),
            ("sys/fs/btrfs/0c9f/allocation/data/raid1/total_bytes", "7\n"),
        ]);
        assert_eq!(described(&tree), ["sdb on sdb: data raid1", "sdb on sdc: data raid1"]);
    }
}
