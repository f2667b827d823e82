//! Location of a device's data: the ranges of files, storage units and other devices that it consists of.
//!
//! Two loop devices on one file, two volumes on one range of a disk, or two paths to one LUN are separate devices to
//! the kernel: neither is claimed when the other is mounted, yet writing to one destroys the data of the other.

use super::StorageMap;
use super::backing_file::{self, Backing, BackingFile};
use super::device::{folder, identity, name};
use std::collections::BTreeSet;
use whyslow_sense::storage::{LowerRange, MappedData, mapped_parts};

/// Identity of stored data, independent of device names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BackingStore {
    File(BackingFile),
    /// A storage unit, by its own name and size.
    Unit {
        name: String,
        bytes: u64,
    },
    /// A volume of a thin pool.
    Thin {
        pool: String,
        volume: u64,
    },
    /// A device without an identity of its own, by its number.
    Device(String),
}

impl BackingStore {
    fn may_be(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(own), Self::File(other)) => own.may_be(other),
            (own, other) => own == other,
        }
    }
}

/// A range of a store that a device may write to.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ByteRange {
    store: BackingStore,
    start: u64,
    end: u64,
    /// Offset on the device; `None` if only the device's driver knows the layout.
    at: Option<u64>,
    /// Devices above the store whose drivers alone know the layout. They are stores themselves: whether two devices on
    /// one of them overlap is decided there.
    through: BTreeSet<String>,
}

impl ByteRange {
    fn whole(store: BackingStore) -> Self {
        Self { store, start: 0, end: u64::MAX, at: Some(0), through: BTreeSet::new() }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let is_decided_above = !self.through.is_disjoint(&other.through);
        !is_decided_above && self.start < other.end && other.start < self.end && self.store.may_be(&other.store)
    }

    /// Returns the intersection with a part of the device; `size` 0 means up to the end.
    fn part(self, start: u64, size: u64) -> Option<Self> {
        let Some(at) = self.at else { return Some(self) };
        let end = if size == 0 { u64::MAX } else { start.saturating_add(size) };
        let (from, to) = (at.max(start), at.saturating_add(self.end - self.start).min(end));
        let part = || Self {
            start: self.start.saturating_add(from - at),
            end: self.start.saturating_add(to - at),
            at: Some(from - start),
            ..self
        };
        (from < to).then(part)
    }

    /// Returns the range shifted by an offset on the device.
    fn moved(self, by: u64) -> Self {
        Self { at: self.at.map(|at| at.saturating_add(by)), ..self }
    }

    /// Returns the range for a device whose driver alone knows the layout.
    fn spread(mut self, through: &str) -> Self {
        self.through.insert(through.to_owned());
        Self { at: None, ..self }
    }
}

/// A device and everything below it.
#[derive(Default)]
pub(super) struct DeviceStack {
    /// All devices in the stack, including the device itself.
    pub(super) devices: BTreeSet<String>,
    /// Devices in the stack that a loop device is on: the kernel does not claim them for it.
    pub(super) unclaimed: BTreeSet<String>,
    ranges: Vec<ByteRange>,
}

impl DeviceStack {
    pub(super) fn for_device(map: &StorageMap, device: &str) -> Self {
        let mut stack = Self::default();
        stack.ranges = stack.walk(map, device, &mut Vec::new());
        stack
    }

    /// Returns whether writing to one may change the data of the other.
    pub(super) fn has_common_data(&self, other: &Self) -> bool {
        self.ranges.iter().any(|own| other.ranges.iter().any(|others| own.overlaps(others)))
    }

    /// Returns device and inode number of each file that may have the data.
    pub(super) fn inodes(&self) -> BTreeSet<(u64, u64)> {
        let files = self.ranges.iter().filter_map(|range| match &range.store {
            BackingStore::File(file) => Some(&file.inodes),
            _ => None,
        });
        files.flatten().copied().collect()
    }

    fn walk(&mut self, map: &StorageMap, device: &str, above: &mut Vec<String>) -> Vec<ByteRange> {
        if above.iter().any(|name| name == device) {
            return Vec::new();
        }
        self.devices.insert(device.to_owned());
        above.push(device.to_owned());
        let ranges = self.ranges_of(map, device, above);
        above.pop();
        ranges
    }

    fn ranges_of(&mut self, map: &StorageMap, device: &str, above: &mut Vec<String>) -> Vec<ByteRange> {
        if let Some(backing) = loop_backing(map, device) {
            let below = match backing.at {
                Backing::Device(number) => {
                    let Some(lower) = name(map, number) else { return Vec::new() };
                    self.unclaimed.insert(lower.clone());
                    self.walk(map, &lower, above)
                }
                Backing::File(file) => vec![ByteRange::whole(BackingStore::File(file))],
            };
            return below.into_iter().filter_map(|range| range.part(backing.offset, backing.limit)).collect();
        }
        if let Some(ranges) = self.mapped(map, device, above) {
            return ranges;
        }
        let lowers: Vec<String> = map.topology.below(device).map(|name| name.to_string()).collect();
        let lowers: Vec<&String> = lowers.iter().filter(|lower| map.root.at(folder(lower)).exists()).collect();
        if let [disk] = lowers[..]
            && is_disk_of(map, device, disk)
        {
            let (start, size) = (map.start(device), bytes(map, device));
            let below = self.walk(map, disk, above);
            return below.into_iter().filter_map(|range| range.part(start, size)).collect();
        }
        if lowers.is_empty() {
            return vec![ByteRange::whole(unit(map, device))];
        }
        let below: Vec<ByteRange> = lowers.into_iter().flat_map(|lower| self.walk(map, lower, above)).collect();
        opaque(map, device, below)
    }

    /// Reads the table of a device-mapper device; `None` for other devices, and if the table cannot be read.
    fn mapped(&mut self, map: &StorageMap, device: &str, above: &mut Vec<String>) -> Option<Vec<ByteRange>> {
        if !map.root.is_live() || !map.root.at(format!("{}/dm", folder(device))).exists() {
            return None;
        }
        let (major, minor) = number(&map.root.word(&format!("{}/dev", folder(device)))?)?;
        let mut ranges = Vec::new();
        for part in mapped_parts(major, minor)? {
            let mut lower = |map: &StorageMap, range: &LowerRange| {
                let below = self.walk(map, &named(map, range.device)?, above);
                let parts = below.into_iter().filter_map(|below| below.part(range.start, range.bytes));
                Some(parts.collect::<Vec<ByteRange>>())
            };
            match part.data {
                MappedData::Linear(range) => {
                    ranges.extend(lower(map, &range)?.into_iter().map(|range| range.moved(part.start)));
                }
                MappedData::Spread(all) => {
                    for range in all {
                        ranges.extend(lower(map, &range)?.into_iter().map(|range| ByteRange { at: None, ..range }));
                    }
                }
                MappedData::Thin { pool, volume } => {
                    let pool = named(map, pool)?;
                    let store = BackingStore::Thin { pool: pool.clone(), volume };
                    ranges.push(ByteRange::whole(store).part(0, part.bytes)?.moved(part.start));
                    // The pool's volumes have blocks of their own.
                    let volumes = format!("volumes of {pool}");
                    ranges.extend(self.walk(map, &pool, above).into_iter().map(|range| range.spread(&volumes)));
                }
                MappedData::Nowhere => {}
                MappedData::Unknown => return None,
            }
        }
        Some(ranges)
    }
}

/// Returns whether two devices are the same, one lies on the other, or both share data.
pub(super) fn have_common_data(map: &StorageMap, device: &str, other: &str) -> bool {
    let [own, others] = [device, other].map(|device| DeviceStack::for_device(map, device));
    own.devices.contains(other) || others.devices.contains(device) || own.has_common_data(&others)
}

/// Returns devices that share data with this one, except the device itself and those it consists of.
pub(super) fn twins(map: &StorageMap, device: &str, own: &DeviceStack) -> Vec<String> {
    let over: BTreeSet<String> = map.topology.over(device).iter().map(|name| name.to_string()).collect();
    let others = map.root.list("sys/class/block").into_iter().map(|name| name.replace('!', "/"));
    // A path of a multipath NVMe disk has no device node and is only used through the disk.
    let is_hidden = |name: &str| map.root.number(&format!("{}/hidden", folder(name))) == Some(1);
    let is_other = |name: &String| !own.devices.contains(name) && !over.contains(name) && !is_hidden(name);
    others.filter(is_other).filter(|name| own.has_common_data(&DeviceStack::for_device(map, name))).collect()
}

/// Returns the ranges of a device whose driver alone knows the layout below it.
fn opaque(map: &StorageMap, device: &str, below: Vec<ByteRange>) -> Vec<ByteRange> {
    let number = map.root.word(&format!("{}/dev", folder(device))).unwrap_or_else(|| device.to_owned());
    let own = ByteRange::whole(BackingStore::Device(number));
    std::iter::once(own).chain(below.into_iter().map(|range| range.spread(device))).collect()
}

fn is_disk_of(map: &StorageMap, part: &str, disk: &str) -> bool {
    map.relation(part, disk) == Some("partition")
}

fn bytes(map: &StorageMap, device: &str) -> u64 {
    map.root.number(&format!("{}/size", folder(device))).unwrap_or(0).saturating_mul(512)
}

fn unit(map: &StorageMap, device: &str) -> BackingStore {
    let bytes = bytes(map, device);
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

fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn named(map: &StorageMap, (major, minor): (u32, u32)) -> Option<String> {
    name(map, libc::makedev(major, minor))
}

struct LoopBacking {
    at: Backing,
    offset: u64,
    limit: u64,
}

/// Returns the backing store of a loop device; `None` if the device is not a configured loop device.
fn loop_backing(map: &StorageMap, device: &str) -> Option<LoopBacking> {
    let path = backing_file::path(map, device)?;
    let number = |file: &str| map.root.number(&format!("{}/loop/{file}", folder(device))).unwrap_or(0);
    let (offset, limit) = (number("offset"), number("sizelimit"));
    let at = backing_file::of_device(map, device, &path)?;
    Some(LoopBacking { at, offset, limit })
}

#[cfg(test)]
#[path = "backing_store_tests.rs"]
mod tests;
