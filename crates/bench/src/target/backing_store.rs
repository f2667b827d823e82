//! Where a device keeps its data: the file behind a loop device, the unit behind a path.
//!
//! Two loop devices on one file, or two paths to one LUN, are separate devices to the kernel: neither is claimed when
//! the other is mounted, yet writing to one destroys the data of the other.

use super::device::{folder, identity};
use super::{StorageMap, in_use};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Identifies stored data, whatever the device is called.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BackingStore {
    File {
        device: u64,
        inode: u64,
    },
    /// A unit of storage, by its own name and size.
    Unit {
        name: String,
        bytes: u64,
    },
    /// A device without an identity of its own, by its number.
    Device(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ByteRange {
    store: BackingStore,
    start: u64,
    end: u64,
}

impl ByteRange {
    fn overlaps(&self, other: &Self) -> bool {
        self.store == other.store && self.start < other.end && other.start < self.end
    }

    /// `size` 0 means up to the end.
    fn part(self, start: u64, size: u64) -> Self {
        let begin = self.start.saturating_add(start);
        let end = if size == 0 { self.end } else { self.end.min(begin.saturating_add(size)) };
        Self { start: begin, end, ..self }
    }
}

/// A device and everything below it.
#[derive(Default)]
struct DeviceStack {
    devices: BTreeSet<String>,
    regions: Vec<ByteRange>,
}

impl DeviceStack {
    /// Whether both have the same data. A device that shares only lower devices with another, such as another partition, is
    /// its neighbour.
    fn is_twin_of(&self, other: &Self) -> bool {
        let overlaps = self.regions.iter().any(|mine| other.regions.iter().any(|theirs| mine.overlaps(theirs)));
        overlaps && self.devices.is_disjoint(&other.devices)
    }
}

/// Whether two devices are one, one lies on the other, or both have the same data.
pub(super) fn have_common_data(map: &StorageMap, device: &str, other: &str) -> bool {
    let [own, theirs] = [device, other].map(|device| stack(map, device));
    own.devices.contains(other) || theirs.devices.contains(device) || own.is_twin_of(&theirs)
}

/// Uses of a device's data that are not uses of the device itself.
pub(super) fn uses(map: &StorageMap, device: &str) -> Vec<String> {
    let own = stack(map, device);
    let over: BTreeSet<String> = map.topology.over(device).iter().map(|name| name.to_string()).collect();
    let mut uses = Vec::new();
    for other in devices(map) {
        if own.devices.contains(&other) || over.contains(&other) {
            continue;
        }
        if own.is_twin_of(&stack(map, &other)) {
            let what = in_use::uses(map, &other);
            uses.extend(what.into_iter().map(|what| format!("{other} has the same data as {device}, and {what}")));
        }
    }
    // Lower devices that are mounted themselves.
    for lower in own.devices.iter().filter(|lower| *lower != device && !is_disk_of(map, device, lower)) {
        uses.extend(in_use::mounts(map, lower));
    }
    for region in &own.regions {
        if let BackingStore::File { device: number, inode } = region.store {
            uses.extend(uses_of_file(map, number, inode));
        }
    }
    uses.sort();
    uses.dedup();
    uses
}

fn is_disk_of(map: &StorageMap, part: &str, disk: &str) -> bool {
    map.relation(part, disk) == Some("partition")
}

fn devices(map: &StorageMap) -> Vec<String> {
    map.root.list("sys/class/block").into_iter().map(|name| name.replace('!', "/")).collect()
}

fn stack(map: &StorageMap, device: &str) -> DeviceStack {
    let mut stack = DeviceStack::default();
    stack.regions = regions(map, device, &mut stack.devices);
    stack
}

/// Adds the devices it passes to `seen`.
fn regions(map: &StorageMap, device: &str, seen: &mut BTreeSet<String>) -> Vec<ByteRange> {
    if !seen.insert(device.to_owned()) {
        return Vec::new();
    }
    if let Some(backing) = loop_backing(map, device) {
        let below = match backing.at {
            Backing::Device(lower) => regions(map, &lower, seen),
            Backing::File { device, inode } => {
                vec![ByteRange { store: BackingStore::File { device, inode }, start: 0, end: u64::MAX }]
            }
        };
        return below.into_iter().map(|region| region.part(backing.offset, backing.limit)).collect();
    }
    let lowers: Vec<String> = map.topology.below(device).map(|name| name.to_string()).collect();
    let lowers: Vec<&String> = lowers.iter().filter(|lower| map.root.at(folder(lower)).exists()).collect();
    if lowers.is_empty() {
        return vec![ByteRange { store: unit(map, device), start: 0, end: u64::MAX }];
    }
    let mut all = Vec::new();
    for lower in lowers {
        let below = regions(map, lower, seen);
        if is_disk_of(map, device, lower) {
            let size = map.root.number(&format!("{}/size", folder(device))).unwrap_or(0).saturating_mul(512);
            all.extend(below.into_iter().map(|region| region.part(map.start(device), size)));
        } else {
            // Only the driver of a dm or md device knows which part of a member it uses: assume all.
            all.extend(below);
        }
    }
    all
}

fn unit(map: &StorageMap, device: &str) -> BackingStore {
    let bytes = map.root.number(&format!("{}/size", folder(device))).unwrap_or(0).saturating_mul(512);
    let word = |file: &str| map.root.word(&format!("{}/{file}", folder(device))).filter(|text| !text.is_empty());
    let name = word("wwid").or_else(|| word("device/wwid")).or_else(|| {
        let identity = identity(map, device);
        identity.is_serial().then_some(identity.text)
    });
    match name {
        Some(name) => BackingStore::Unit { name, bytes },
        None => BackingStore::Device(word("dev").unwrap_or_else(|| device.to_owned())),
    }
}

struct LoopBacking {
    at: Backing,
    offset: u64,
    limit: u64,
}

enum Backing {
    Device(String),
    File { device: u64, inode: u64 },
}

/// `None` if it is not a configured loop device.
fn loop_backing(map: &StorageMap, device: &str) -> Option<LoopBacking> {
    let entry = |file: &str| format!("{}/loop/{file}", folder(device));
    let path = map.root.maybe(&entry("backing_file"))?;
    let path = path.trim_end_matches('\n');
    let number = |file: &str| map.root.number(&entry(file)).unwrap_or(0);
    let (offset, limit) = (number("offset"), number("sizelimit"));
    let known = map.root.is_live().then(|| status(device)).flatten();
    let at = match fs::metadata(map.root.at(path.trim_start_matches('/'))) {
        Ok(meta) if meta.file_type().is_block_device() => {
            let (major, minor) = (libc::major(meta.rdev()), libc::minor(meta.rdev()));
            let link = map.root.link(&format!("sys/dev/block/{major}:{minor}"))?;
            Backing::Device(link.rsplit('/').next()?.replace('!', "/"))
        }
        // The path may no longer lead to the file, but the kernel knows its inode.
        found => {
            let found = found.ok().map(|meta| (meta.dev(), meta.ino()));
            let (device, inode) = known.or(found)?;
            Backing::File { device, inode }
        }
    };
    Some(LoopBacking { at, offset, limit })
}

/// struct loop_info64 (include/uapi/linux/loop.h).
#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rest: [u64; 27],
}

const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;

/// Device and inode number of the file behind a loop device.
fn status(device: &str) -> Option<(u64, u64)> {
    let file = File::open(format!("/dev/{device}")).ok()?;
    let mut info = LoopInfo { device: 0, inode: 0, rest: [0; 27] };
    // SAFETY: `info` is as large as the kernel's structure, which it fills.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), LOOP_GET_STATUS64 as _, &raw mut info) };
    (status == 0).then_some((info.device, info.inode))
}

/// Uses of a file other than by a loop device: open in a process, swap, mounted directly.
fn uses_of_file(map: &StorageMap, device: u64, inode: u64) -> Vec<String> {
    if !map.root.is_live() {
        return Vec::new();
    }
    let is_it = |path: &str| {
        fs::metadata(Path::new(path)).is_ok_and(|meta| meta.is_file() && (meta.dev(), meta.ino()) == (device, inode))
    };
    let mut uses = in_use::openers_of_file(device, inode);
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
    uses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_ranges_of_one_store_are_checked_for_overlap() {
        let store = BackingStore::File { device: 1, inode: 2 };
        let whole = ByteRange { store: store.clone(), start: 0, end: u64::MAX };
        let part = |start, size| whole.clone().part(start, size);
        assert!(part(0, 0).overlaps(&part(4096, 512)));
        assert!(part(0, 4096).overlaps(&part(0, 1)));
        assert!(!part(0, 4096).overlaps(&part(4096, 4096)));
        assert!(part(0, 8192).part(4096, 0).overlaps(&part(8191, 0)));
        let other = ByteRange { store: BackingStore::Device("7:0".into()), ..whole.clone() };
        assert!(!whole.overlaps(&other));
    }
}
