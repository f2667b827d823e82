//! What a device keeps its data in, however many names lead to it: the file behind a loop device, the unit behind a path.
//!
//! Two loop devices on one file, or two paths to one LUN, are devices of their own to the kernel: neither is claimed where the
//! other is mounted, and writing to one destroys what is on the other.

use super::device::folder;
use super::{Map, identity, in_use, openers};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Where data is kept, whatever the device that leads to it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Store {
    /// A file, by the number of its file system and its own.
    File { device: u64, inode: u64 },
    /// A unit of storage, by what it says it is and how large.
    Unit { name: String, bytes: u64 },
    /// A device that says nothing of the kind, by its number.
    Device(String),
}

/// A part of a store, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Region {
    store: Store,
    start: u64,
    end: u64,
}

impl Region {
    fn overlaps(&self, other: &Self) -> bool {
        self.store == other.store && self.start < other.end && other.start < self.end
    }

    /// The part of it that begins at `start` and has at most `size` bytes; 0 is all.
    fn part(self, start: u64, size: u64) -> Self {
        let begin = self.start.saturating_add(start);
        let end = if size == 0 { self.end } else { self.end.min(begin.saturating_add(size)) };
        Self { start: begin, end, ..self }
    }
}

/// A device and what is below it.
#[derive(Default)]
struct Stack {
    devices: BTreeSet<String>,
    regions: Vec<Region>,
}

/// Every use of what a device keeps its data in that is not a use of the device itself, in words.
pub(super) fn uses(map: &Map, device: &str) -> Vec<String> {
    let own = stack(map, device);
    let over: BTreeSet<String> = map.topology.over(device).iter().map(|name| name.to_string()).collect();
    let mut uses = Vec::new();
    for other in devices(map) {
        if own.devices.contains(&other) || over.contains(&other) {
            continue;
        }
        // A device that stands on one that this one stands on too, and on no other way to it, is its neighbour.
        let twin = stack(map, &other);
        let shares = own.regions.iter().any(|mine| twin.regions.iter().any(|theirs| mine.overlaps(theirs)));
        let is_neighbour = !twin.devices.is_disjoint(&own.devices);
        if shares && !is_neighbour {
            let what = in_use::uses(map, &other);
            uses.extend(what.into_iter().map(|what| format!("{other} has the same data as {device}, and {what}")));
        }
    }
    // What is below and is mounted or open itself, beside being what this one stands on.
    for lower in own.devices.iter().filter(|lower| *lower != device && !is_disk_of(map, device, lower)) {
        uses.extend(in_use::mounts(map, lower));
    }
    for region in &own.regions {
        if let Store::File { device: number, inode } = region.store {
            uses.extend(uses_of_file(map, number, inode));
        }
    }
    uses.sort();
    uses.dedup();
    uses
}

fn is_disk_of(map: &Map, part: &str, disk: &str) -> bool {
    map.relation(part, disk) == Some("partition")
}

/// All block devices, partitions included.
fn devices(map: &Map) -> Vec<String> {
    map.root.list("sys/class/block").into_iter().map(|name| name.replace('!', "/")).collect()
}

fn stack(map: &Map, device: &str) -> Stack {
    let mut stack = Stack::default();
    stack.regions = regions(map, device, &mut stack.devices);
    stack
}

/// What a device keeps its data in; what it is made of is added to `seen`.
fn regions(map: &Map, device: &str, seen: &mut BTreeSet<String>) -> Vec<Region> {
    if !seen.insert(device.to_owned()) {
        return Vec::new();
    }
    if let Some(backing) = loop_backing(map, device) {
        let below = match backing.at {
            Backing::Device(lower) => regions(map, &lower, seen),
            Backing::File { device, inode } => {
                vec![Region { store: Store::File { device, inode }, start: 0, end: u64::MAX }]
            }
        };
        return below.into_iter().map(|region| region.part(backing.offset, backing.limit)).collect();
    }
    let lowers: Vec<String> = map.topology.below(device).map(|name| name.to_string()).collect();
    let lowers: Vec<&String> = lowers.iter().filter(|lower| map.root.at(folder(lower)).exists()).collect();
    if lowers.is_empty() {
        return vec![Region { store: unit(map, device), start: 0, end: u64::MAX }];
    }
    let mut all = Vec::new();
    for lower in lowers {
        let below = regions(map, lower, seen);
        if is_disk_of(map, device, lower) {
            let size = map.root.number(&format!("{}/size", folder(device))).unwrap_or(0).saturating_mul(512);
            all.extend(below.into_iter().map(|region| region.part(map.start(device), size)));
        } else {
            // Which part of a member a dm or md device uses only its driver knows: any of it.
            all.extend(below);
        }
    }
    all
}

/// A disk by what it says of itself; where it says nothing, by its number.
fn unit(map: &Map, device: &str) -> Store {
    let bytes = map.root.number(&format!("{}/size", folder(device))).unwrap_or(0).saturating_mul(512);
    let word = |file: &str| map.root.word(&format!("{}/{file}", folder(device))).filter(|text| !text.is_empty());
    let name = word("wwid").or_else(|| word("device/wwid")).or_else(|| {
        let identity = identity::of(map, device);
        identity.is_serial().then_some(identity.text)
    });
    match name {
        Some(name) => Store::Unit { name, bytes },
        None => Store::Device(word("dev").unwrap_or_else(|| device.to_owned())),
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

/// What a loop device has its data in; none where it is no loop device, or is not set up.
fn loop_backing(map: &Map, device: &str) -> Option<LoopBacking> {
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
        // The path need not lead to the file any longer: the kernel knows which it is.
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

/// The file behind a loop device, as the kernel has it: the number of its file system and its own.
fn status(device: &str) -> Option<(u64, u64)> {
    let file = File::open(format!("/dev/{device}")).ok()?;
    let mut info = LoopInfo { device: 0, inode: 0, rest: [0; 27] };
    // SAFETY: `info` is as large as the kernel's structure, which it fills.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
    (status == 0).then_some((info.device, info.inode))
}

/// Who uses a file other than by a loop device: a process that has it open, swap, a mount of the file itself.
fn uses_of_file(map: &Map, device: u64, inode: u64) -> Vec<String> {
    if !map.root.is_live() {
        return Vec::new();
    }
    let is_it = |path: &str| {
        fs::metadata(Path::new(path)).is_ok_and(|meta| meta.is_file() && (meta.dev(), meta.ino()) == (device, inode))
    };
    let mut uses = openers::of_file(device, inode);
    let swaps = map.root.maybe("proc/swaps").unwrap_or_default();
    let swap = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).filter(|path| is_it(path));
    uses.extend(swap.map(|path| format!("{path} is swap")));
    // erofs mounts a file without a loop device (Documentation/filesystems/erofs.rst).
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
    fn parts_of_one_store_overlap_or_do_not() {
        let store = Store::File { device: 1, inode: 2 };
        let whole = Region { store: store.clone(), start: 0, end: u64::MAX };
        let part = |start, size| whole.clone().part(start, size);
        assert!(part(0, 0).overlaps(&part(4096, 512)));
        assert!(part(0, 4096).overlaps(&part(0, 1)));
        assert!(!part(0, 4096).overlaps(&part(4096, 4096)));
        assert!(part(0, 8192).part(4096, 0).overlaps(&part(8191, 0)));
        let other = Region { store: Store::Device("7:0".into()), ..whole.clone() };
        assert!(!whole.overlaps(&other));
    }
}
