//! Devices and files that this kernel serves to other machines, possibly without claiming them.

use super::StorageMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// Export servers in configfs: the server's folder, the folder of exports below it, and the file with the path of an
/// export (drivers/nvme/target, drivers/target).
const SERVERS: [(&str, &str, &str); 2] = [
    ("sys/kernel/config/nvmet/subsystems", "namespaces", "device_path"),
    ("sys/kernel/config/target/core", "", "udev_path"),
];

/// Returns the exports of block devices with these numbers.
pub(super) fn of_devices(map: &StorageMap, numbers: &[(u32, u32)]) -> Vec<String> {
    matching(map, |meta| {
        let number = (libc::major(meta.rdev()), libc::minor(meta.rdev()));
        meta.file_type().is_block_device() && numbers.contains(&number)
    })
}

/// Returns the exports of the file with this device and inode number.
pub(super) fn of_file(map: &StorageMap, inode: (u64, u64)) -> Vec<String> {
    matching(map, |meta| meta.is_file() && (meta.dev(), meta.ino()) == inode)
}

fn matching(map: &StorageMap, is_it: impl Fn(&fs::Metadata) -> bool) -> Vec<String> {
    let mut exports = Vec::new();
    for (server, below, file) in SERVERS {
        for group in map.root.list(server) {
            let folder = format!("{server}/{group}/{below}");
            let folder = folder.trim_end_matches('/');
            for entry in map.root.list(folder) {
                let export = format!("{folder}/{entry}");
                let path = map.root.word(&format!("{export}/{file}")).filter(|path| path.starts_with('/'));
                if path.is_some_and(|path| fs::metadata(path).is_ok_and(|meta| is_it(&meta))) {
                    exports.push(format!("/{export} exports it"));
                }
            }
        }
    }
    exports
}
