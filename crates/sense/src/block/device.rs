//! Names of block devices, as in /proc/diskstats.

use crate::Root;

/// Bytes per sector, the kernel's unit whatever the device's own block size.
pub(crate) const SECTOR: u64 = 512;

/// Lists the whole disks by their names in sysfs.
pub(crate) fn disks(root: &Root) -> Vec<String> {
    root.list("sys/block")
}

/// Lists the partitions of a disk by their names in sysfs.
pub(crate) fn partitions(root: &Root, disk: &str) -> Vec<String> {
    let mut names = root.list(&format!("sys/block/{disk}"));
    names.retain(|n| n.starts_with(disk) && root.at(format!("sys/block/{disk}/{n}/partition")).exists());
    names
}

/// Converts a sysfs entry to the kernel's name: sysfs writes `!` for `/` (`cciss!c0d0`).
pub(crate) fn kernel_name(entry: &str) -> String {
    entry.replace('!', "/")
}

/// Converts the kernel's name of a device to its sysfs entry.
pub(crate) fn entry(kernel_name: &str) -> String {
    kernel_name.replace('/', "!")
}

/// Returns the kernel's name of the device with this `major:minor`.
pub(crate) fn by_number(root: &Root, number: &str) -> Option<String> {
    root.setting_link(&format!("sys/dev/block/{number}")).map(|target| kernel_name(last(&target)))
}

/// Returns the kernel's name of the device behind a path such as `/dev/mapper/root` or `/dev/sda1`.
pub(crate) fn by_path(root: &Root, path: &str) -> Option<String> {
    let node = path.strip_prefix("/dev/")?;
    let name = match root.link(&format!("dev/{node}")) {
        Some(target) => last(&target).to_owned(),
        None => entry(node),
    };
    root.at(format!("sys/class/block/{name}")).exists().then(|| kernel_name(&name))
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn a_device_is_named_by_number_and_by_path() {
        let tree =
            CapturedTree::with_files(&[("sys/class/block/dm-0/size", "8\n"), ("sys/class/block/sda1/size", "8\n")]);
        tree.link("sys/dev/block/253:0", "../../devices/virtual/block/dm-0");
        tree.link("sys/dev/block/104:0", "../../devices/pci/block/cciss!c0d0");
        tree.link("dev/mapper/root", "../dm-0");
        let root = tree.root();
        assert_eq!(by_number(&root, "253:0").as_deref(), Some("dm-0"));
        assert_eq!(by_number(&root, "104:0").as_deref(), Some("cciss/c0d0"));
        assert_eq!(by_number(&root, "9:9"), None);
        assert_eq!(by_path(&root, "/dev/mapper/root").as_deref(), Some("dm-0"));
        assert_eq!(by_path(&root, "/dev/sda1").as_deref(), Some("sda1"));
        assert_eq!(by_path(&root, "/dev/sdz"), None);
        assert_eq!(by_path(&root, "/dev/shm/sda1"), None);
        assert_eq!(by_path(&root, "server:/export"), None);
    }
}
