//! The file behind a loop device, identified by every inode that leads to its data.
//!
//! An overlay shows a file of another file system under its own inode number, so that a loop device on the file in the
//! overlay and one on the file itself share data but no inode. The layers reveal which files those are. FUSE and
//! network file systems do not: a file there may be any file.

use super::StorageMap;
use super::device::folder;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use whyslow_sense::storage::{self, MountInfo};

/// Maximum nesting of overlays (FILESYSTEM_MAX_STACK_DEPTH in include/linux/fs.h).
const MOST_LAYERS: u32 = 3;

/// File systems without a block device that store the data of their files themselves.
const OWN_DATA: [&str; 8] = ["bcachefs", "btrfs", "devtmpfs", "hugetlbfs", "ramfs", "rootfs", "tmpfs", "zfs"];

/// A file, which two loop devices may know by different names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BackingFile {
    /// Device and inode number as the loop device reports them.
    pub(super) shown: (u64, u64),
    /// Inodes of all files that may have the same data, including this one.
    pub(super) inodes: BTreeSet<(u64, u64)>,
    /// Size in bytes.
    pub(super) size: Option<u64>,
    /// True if no other inode leads to the data.
    pub(super) is_certain: bool,
}

impl BackingFile {
    fn of_inode(shown: (u64, u64), is_certain: bool) -> Self {
        Self { shown, inodes: BTreeSet::from([shown]), size: None, is_certain }
    }

    /// Returns whether both may be the same file.
    pub(super) fn may_be(&self, other: &Self) -> bool {
        if !self.inodes.is_disjoint(&other.inodes) {
            return true;
        }
        // Two inodes of one file system are two files.
        if self.is_certain && other.is_certain || self.shown.0 == other.shown.0 {
            return false;
        }
        self.size.zip(other.size).is_none_or(|(own, others)| own == others)
    }
}

/// Backing store of a loop device.
pub(super) enum Backing {
    /// A block device, by number.
    Device(u64),
    File(BackingFile),
}

/// Returns the backing store of a loop device that reports `path`; `None` if it cannot be determined.
pub(super) fn of_device(map: &StorageMap, device: &str, path: &str) -> Option<Backing> {
    let path = map.root.at(path.trim_start_matches('/'));
    let known = map.root.is_live().then(|| status(device)).flatten();
    // In another mount namespace, or once the file is deleted, the path leads elsewhere; but the kernel knows the
    // inode.
    let shown = match known {
        Some(info) if info.inner_device != 0 => return Some(Backing::Device(info.inner_device)),
        Some(info) => (info.device, info.inode),
        None => {
            let meta = metadata(map, &path)?;
            if meta.file_type().is_block_device() {
                return Some(Backing::Device(meta.rdev()));
            }
            (meta.dev(), meta.ino())
        }
    };
    let seen = at(map, &path, MOST_LAYERS).filter(|seen| seen.shown == shown);
    Some(Backing::File(seen.unwrap_or_else(|| BackingFile::of_inode(shown, keeps_data(map, shown.0)))))
}

/// Returns the file at a path.
fn at(map: &StorageMap, path: &Path, most_layers: u32) -> Option<BackingFile> {
    if !map.root.is_live() {
        let meta = fs::metadata(path).ok()?;
        return Some(BackingFile::of_inode((meta.dev(), meta.ino()), true));
    }
    let mounts = storage::mounts(&map.root).ok()?;
    let mount = storage::holder(&mounts, path.to_str()?)?;
    let meta = metadata(map, path).filter(fs::Metadata::is_file)?;
    let shown = (meta.dev(), meta.ino());
    let mut file = BackingFile { size: Some(meta.len()), ..BackingFile::of_inode(shown, is_own_data(mount)) };
    let layers = if most_layers > 0 { below(mount, path) } else { Vec::new() };
    let found: Vec<(PathBuf, fs::Metadata)> =
        layers.into_iter().filter_map(|path| metadata(map, &path).map(|meta| (path, meta))).collect();
    // The topmost layer has the data, unless only its attributes were copied up.
    let is_it = |(_, below): &(PathBuf, fs::Metadata)| same_attributes(below, &meta) && !mount.has("metacopy=on");
    let mut is_certain = found.first().is_some_and(is_it);
    for (path, _) in &found {
        match at(map, path, most_layers - 1) {
            Some(below) => {
                is_certain &= below.is_certain;
                file.inodes.extend(below.inodes);
            }
            None => is_certain = false,
        }
    }
    file.is_certain |= is_certain;
    Some(file)
}

/// Returns the metadata of a path; `None` also if it is on a mount that does not answer.
fn metadata(map: &StorageMap, path: &Path) -> Option<fs::Metadata> {
    storage::answers(&map.root, path.to_str()?).then(|| fs::metadata(path).ok())?
}

/// Returns the paths where the layers of an overlay may have the file.
fn below(mount: &MountInfo, path: &Path) -> Vec<PathBuf> {
    let within = path.strip_prefix(&mount.point).unwrap_or(Path::new(""));
    let within = Path::new(mount.root.trim_start_matches('/')).join(within);
    let layers = mount.layers().into_iter().map(PathBuf::from).filter(|layer| layer.is_absolute());
    // A bind mount of a single file has nothing below its mount point.
    layers.map(|layer| if within.as_os_str().is_empty() { layer } else { layer.join(&within) }).collect()
}

/// Returns whether two files have the same attributes, which an overlay passes through.
fn same_attributes(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    let all = |meta: &fs::Metadata| (meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
    a.is_file() && all(a) == all(b)
}

fn is_own_data(mount: &MountInfo) -> bool {
    !mount.number.starts_with("0:") || OWN_DATA.contains(&mount.kind.as_str())
}

/// Returns whether files with this device number have data of their own.
fn keeps_data(map: &StorageMap, device: u64) -> bool {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let number = format!("{major}:{minor}");
    let mounts = storage::mounts(&map.root).unwrap_or_default();
    major != 0 || mounts.iter().any(|mount| mount.number == number && is_own_data(mount))
}

/// struct loop_info64 (include/uapi/linux/loop.h).
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    /// Number of the block device behind it, if it is on one.
    inner_device: u64,
    rest: [u64; 26],
}

const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;

/// Queries the kernel for the file behind a loop device.
fn status(device: &str) -> Option<LoopInfo> {
    let file = File::open(format!("/dev/{device}")).ok()?;
    let mut info = LoopInfo { device: 0, inode: 0, inner_device: 0, rest: [0; 26] };
    // SAFETY: `info` is as large as the kernel's structure, which it fills.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), LOOP_GET_STATUS64 as _, &raw mut info) };
    (status == 0).then_some(info)
}

/// Returns the path of the file behind a loop device, as its mount namespace knows it; `None` if the device is not a
/// configured loop device.
pub(super) fn path(map: &StorageMap, device: &str) -> Option<String> {
    let path = map.root.maybe(&format!("{}/loop/backing_file", folder(device)))?;
    Some(path.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_may_be_any_is_told_apart_by_size_and_file_system() {
        let file = |device, inode, size, is_certain| BackingFile {
            size,
            ..BackingFile::of_inode((device, inode), is_certain)
        };
        let known = file(8, 1, Some(4096), true);
        assert!(known.may_be(&known) && !known.may_be(&file(8, 2, Some(4096), true)));
        let elsewhere = |size| file(40, 7, size, false);
        assert!(known.may_be(&elsewhere(Some(4096))) && elsewhere(None).may_be(&known));
        assert!(!known.may_be(&elsewhere(Some(8192))));
        assert!(!elsewhere(None).may_be(&file(40, 8, None, false)), "another file of the same file system");
        let layered = BackingFile { inodes: BTreeSet::from([(40, 7), (8, 1)]), ..file(40, 7, None, true) };
        assert!(layered.may_be(&known) && known.may_be(&layered));
    }
}
