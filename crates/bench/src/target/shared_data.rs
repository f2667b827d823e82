//! Other paths to the data of a device: their uses, and claims that exclude others while they are held.

use super::StorageMap;
use super::backing_store::{self, DeviceStack};
use super::device::{folder, open_patiently};
use super::{exports, in_use};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Other paths to the data of a device.
pub(super) struct SharedData<'m> {
    map: &'m StorageMap,
    device: String,
    stack: DeviceStack,
    twins: Vec<String>,
}

impl<'m> SharedData<'m> {
    pub(super) fn of_device(map: &'m StorageMap, device: &str) -> Self {
        let stack = DeviceStack::for_device(map, device);
        let twins = backing_store::twins(map, device, &stack);
        Self { map, device: device.to_owned(), stack, twins }
    }

    /// Returns uses of the data that are not uses of the device itself.
    pub(super) fn uses(&self) -> Vec<String> {
        let (map, device) = (self.map, &self.device);
        let by_twin = |twin: &String| {
            let has = format!("{twin} has data of {device}, and ");
            in_use::uses(map, twin).into_iter().map(move |what| has.clone() + &what)
        };
        let mut uses: Vec<String> = self.twins.iter().flat_map(by_twin).collect();
        let disk = map.disk(device);
        let lowers = || self.stack.devices.iter().filter(|lower| *lower != device && *lower != disk);
        uses.extend(lowers().flat_map(|lower| in_use::mounts(map, lower)));
        uses.extend(self.stack.unclaimed.iter().flat_map(|lower| in_use::uses_itself(map, lower)));
        for inode in self.stack.inodes() {
            uses.extend(uses_of_file(map, inode));
        }
        uses.sort();
        uses.dedup();
        uses
    }

    /// Claims every device that leads to the data. The kernel refuses a claim if it knows of a use that no list shows:
    /// in another mount namespace, or of a file system that was unmounted lazily.
    ///
    /// # Errors
    /// Reports the device that is in use or cannot be claimed.
    pub(super) fn claim(&self) -> Result<Vec<File>, String> {
        let all: BTreeSet<&String> = self.twins.iter().chain(&self.stack.unclaimed).collect();
        // A claim on a disk covers its partitions.
        let is_covered = |name: &str| {
            let disk = self.map.disk(name);
            disk != name && all.iter().any(|other| *other == disk)
        };
        let wanted = all.iter().filter(|name| !is_covered(name));
        wanted.filter_map(|name| self.claim_one(name).transpose()).collect()
    }

    /// Claims one device. Returns `None` if there is nothing to claim.
    fn claim_one(&self, name: &str) -> Result<Option<File>, String> {
        let device = &self.device;
        match open_claimed(self.map, name) {
            Ok(file) => Ok(Some(file)),
            Err(e) if matches!(e.raw_os_error(), Some(libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM)) => Ok(None),
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => Err(format!(
                "is in use: {name} has data of {device}, and it, or a part of it, is claimed: mounted in another namespace or \
                 unmounted lazily, part of an array or volume, or opened exclusively by a program"
            )),
            Err(e) => Err(format!(
                "cannot be overwritten: {name} has data of {device}, and cannot be claimed, so it may be in use: /dev/{name}: {e}"
            )),
        }
    }
}

fn open_claimed(map: &StorageMap, name: &str) -> io::Result<File> {
    let path = format!("/dev/{name}");
    let file = open_patiently(Path::new(&path), false, false, libc::O_EXCL)?;
    let number = file.metadata()?.rdev();
    let known = map.root.word(&format!("{}/dev", folder(name)));
    let opened = format!("{}:{}", libc::major(number), libc::minor(number));
    if known.as_ref() == Some(&opened) { Ok(file) } else { Err(io::Error::other("it is another device")) }
}

/// Returns uses of a file other than by a loop device: open or mapped in a process, swap, mounted directly, exported.
fn uses_of_file(map: &StorageMap, inode: (u64, u64)) -> Vec<String> {
    if !map.root.is_live() {
        return Vec::new();
    }
    let is_it = |path: &str| {
        fs::metadata(Path::new(path)).is_ok_and(|meta| meta.is_file() && (meta.dev(), meta.ino()) == inode)
    };
    let mut uses = in_use::openers_of_file(inode);
    let swaps = map.root.maybe("proc/swaps").unwrap_or_default();
    let swap = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).filter(|path| is_it(path));
    uses.extend(swap.map(|path| format!("{path} is swap")));
    // erofs mounts files without a loop device (Documentation/filesystems/erofs.rst).
    let mounts = map.root.maybe("proc/self/mountinfo").unwrap_or_default();
    uses.extend(mounts.lines().filter_map(|line| {
        let (place, source) = line.split_once(" - ")?;
        let source = source.split(' ').nth(1).filter(|source| source.starts_with('/') && is_it(source))?;
        Some(format!("{source} is mounted on {}", place.split(' ').nth(4)?))
    }));
    uses.extend(exports::of_file(map, inode));
    uses
}
