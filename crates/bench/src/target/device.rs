//! Opens block devices.

use super::in_use::uses;
use super::shared_data::SharedData;
use super::{BenchTarget, StorageMap, TargetSpec, cannot_open, open, refused};
use crate::extents;
use crate::{Error, Result};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use whyslow_documents::bench;
use whyslow_model::human;
use whyslow_sense::storage;

/// Time that a device may stay claimed without a visible user: after a program was killed, the kernel releases its
/// io_uring late (io_uring/io_uring.c, `io_ring_exit_work`).
const LINGERING: Duration = Duration::from_millis(500);
const AGAIN: Duration = Duration::from_millis(10);

/// An opened device, with others that stay claimed while it is written to.
struct ClaimedDevice {
    name: String,
    file: File,
    guards: Vec<File>,
}

fn claim(map: &StorageMap, path: &Path, number: u64, ask: &TargetSpec) -> Result<ClaimedDevice> {
    let name = name(map, number).ok_or_else(|| refused(ask, "is not a device known to this kernel"))?;
    if ask.write {
        may_destroy(map, &name, ask)?;
    }
    let shared = ask.in_use && !ask.write;
    // Reading does not endanger data that is also in use elsewhere.
    let other_ways = ask.write.then(|| SharedData::of_device(map, &name));
    if !shared {
        let mut uses = uses(map, &name);
        if let Some(ways) = other_ways.as_ref().filter(|_| uses.is_empty()) {
            uses = ways.uses();
        }
        if !uses.is_empty() {
            return Err(refused(ask, &format!("is in use: {}{}", uses.join("; "), instead(ask))));
        }
    }
    // Without O_CREAT, O_EXCL claims a block device: it fails if a mount or an array has claimed the device, and
    // excludes them from then on (open(2)).
    let flags = if shared { 0 } else { libc::O_EXCL };
    let file = open_patiently(path, ask.write, ask.direct, flags).map_err(|e| match e.raw_os_error() {
        Some(libc::EBUSY) => {
            let why = "is in use: it, or a part of it, is claimed: mounted in another namespace, part of an array or volume, or \
                       opened exclusively by a program";
            refused(ask, &format!("{why}{}", instead(ask)))
        }
        _ => cannot_open(ask, &e),
    })?;
    let opened = file.metadata().map_err(|e| Error::at(&ask.path, "cannot read its metadata", &e))?;
    if opened.rdev() != number {
        return Err(refused(ask, "was replaced while it was being opened"));
    }
    let guards = other_ways.map_or(Ok(Vec::new()), |ways| ways.claim()).map_err(|why| refused(ask, &why))?;
    Ok(ClaimedDevice { name, file, guards })
}

/// Opens a device; retries while it may still be claimed by a killed program.
pub(super) fn open_patiently(path: &Path, write: bool, direct: bool, flags: i32) -> io::Result<File> {
    let patience = Instant::now() + LINGERING;
    loop {
        match open(path, write, direct, flags) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && Instant::now() < patience => sleep(AGAIN),
            opened => return opened,
        }
    }
}

pub(super) fn as_target(map: &StorageMap, path: &Path, number: u64, ask: &TargetSpec) -> Result<BenchTarget> {
    let ClaimedDevice { name: device, file, guards } = claim(map, path, number, ask)?;
    let bytes = size(map, &device).ok_or_else(|| refused(ask, "has size 0: there is nothing to read"))?;
    let kind = if map.topology.is_partition(&device) { "partition" } else { "device" };
    let about = bench::TargetInfo {
        path: String::new(),
        kind: kind.into(),
        below: map.below(&device),
        device: Some(device.clone()),
        file_system: None,
        mount: None,
        bytes,
    };
    let grain = if ask.direct { grain(map, &device) } else { 1 };
    Ok(BenchTarget { about, file: Arc::new(file), grain, temporary: false, caveats: thin(map, &device), guards })
}

/// Returns a caveat for a loop device whose file has parts that were never written.
fn thin(map: &StorageMap, device: &str) -> Vec<String> {
    let path = map.root.maybe(&format!("{}/loop/backing_file", folder(device)));
    let path = path.filter(|path| storage::answers(&map.root, path.trim_end_matches('\n')));
    let file = path.and_then(|path| File::open(path.trim_end_matches('\n')).ok());
    let Some((file, size)) = file.and_then(|file| file.metadata().ok().map(|meta| (file, meta.len()))) else {
        return Vec::new();
    };
    let missing = extents::written(&file).map_or(0, |written| size.saturating_sub(written));
    let what = "were never written; reads of those do not reach the disk below";
    let caveat = || format!("the file behind {device}: {} of {} {what}", human::bytes(missing), human::bytes(size));
    (missing > size / 100).then(caveat).into_iter().collect()
}

/// Returns the bytes that overwriting a device adds to the file systems below it, with the folder of each growing file:
/// loop devices on sparse files.
pub(super) fn unallocated(map: &StorageMap, device: &str) -> Vec<(PathBuf, u64)> {
    let stack = std::iter::once(device.to_owned()).chain(map.below(device));
    let grows = |device: String| {
        let path = map.root.maybe(&format!("{}/loop/backing_file", folder(&device)))?;
        let path = path.trim_end_matches('\n');
        let path = storage::answers(&map.root, path).then(|| Path::new(path))?;
        let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        // st_blocks counts units of 512 bytes (stat(2)).
        let missing = meta.len().saturating_sub(meta.blocks().saturating_mul(512));
        (missing > 0).then_some((path.parent()?.to_owned(), missing))
    };
    stack.filter_map(grows).collect()
}

fn instead(ask: &TargetSpec) -> &'static str {
    if ask.write { "" } else { " (--in-use reads it anyway, which adds load and changes nothing)" }
}

/// Returns the name of a device number.
pub(super) fn name(map: &StorageMap, number: u64) -> Option<String> {
    let (major, minor) = (libc::major(number), libc::minor(number));
    let link = map.root.link(&format!("sys/dev/block/{major}:{minor}"))?;
    link.rsplit('/').next().map(|name| name.replace('!', "/"))
}

pub(super) fn start(map: &StorageMap, partition: &str) -> u64 {
    map.root.number(&format!("{}/start", folder(partition))).unwrap_or(0).saturating_mul(512)
}

fn size(map: &StorageMap, device: &str) -> Option<u64> {
    let sectors = map.root.number(&format!("{}/size", folder(device)))?;
    // Sectors are 512 bytes here, regardless of the device's own sector size (Documentation/ABI/stable/sysfs-block).
    sectors.checked_mul(512).filter(|&bytes| bytes > 0)
}

/// Returns the sysfs folder of a device or partition.
pub(super) fn folder(device: &str) -> String {
    format!("sys/class/block/{}", device.replace('/', "!"))
}

pub(super) fn grain(map: &StorageMap, device: &str) -> u64 {
    map.queue(device).and_then(|queue| queue.logical_block.get()).map_or(512, |bytes| bytes as u64).max(512)
}

/// Checks that the typed serial number matches and that the device is writable.
fn may_destroy(map: &StorageMap, device: &str, ask: &TargetSpec) -> Result<()> {
    let identity = identity(map, device);
    match &ask.destroy {
        None => {
            return Err(refused(ask, &format!("would be overwritten: to allow that, give --destroy {}", identity.is)));
        }
        Some(typed) if *typed != identity.text => {
            return Err(refused(ask, &format!("does not match '{typed}': --destroy takes {}", identity.is)));
        }
        Some(_) => {}
    }
    if map.root.number(&format!("{}/ro", folder(device))) == Some(1) {
        return Err(refused(ask, "is read-only"));
    }
    Ok(())
}

/// Identity of a device, which must be typed before the device is overwritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceIdentity {
    pub(super) text: String,
    pub(super) is: &'static str,
}

impl DeviceIdentity {
    /// Returns whether the identity comes from the device itself.
    pub(super) fn is_serial(&self) -> bool {
        FILES.iter().any(|(_, is)| *is == self.is)
    }
}

/// Files in sysfs: serial numbers of virtio and NVMe, and the equivalents for SCSI, dm and md.
const FILES: [(&str, &str); 5] = [
    ("serial", "its serial number (lsblk -o NAME,SERIAL)"),
    ("device/serial", "its serial number (lsblk -o NAME,SERIAL)"),
    ("device/wwid", "its world-wide name (cat /sys/block/NAME/device/wwid)"),
    ("dm/uuid", "its UUID (dmsetup info)"),
    ("md/uuid", "its UUID (mdadm --detail)"),
];

/// Returns the identity of a device, or of the disk of a partition.
pub(super) fn identity(map: &StorageMap, device: &str) -> DeviceIdentity {
    let whole = map.topology.below(device).find(|lower| map.relation(device, lower) == Some("partition"));
    let device = whole.map_or(device, |whole| &**whole);
    let folder = folder(device);
    let known = |file: &str| map.root.word(&format!("{folder}/{file}")).filter(|text| !text.is_empty());
    if let Some(serial) = scsi_serial(map, &folder) {
        return DeviceIdentity { text: serial, is: FILES[0].1 };
    }
    if let Some((text, is)) = FILES.iter().find_map(|(file, is)| Some((known(file)?, is))) {
        return DeviceIdentity { text, is };
    }
    match known("loop/backing_file") {
        Some(text) => DeviceIdentity { text, is: "the path of the file behind it (losetup -l)" },
        None => {
            let size = known("size").and_then(|sectors| sectors.parse::<u64>().ok()).unwrap_or(0).saturating_mul(512);
            DeviceIdentity {
                text: format!("{device}:{size}"),
                is: "NAME:BYTES, for it has no serial number (lsblk -b -o NAME,SIZE)",
            }
        }
    }
}

/// Reads the Unit Serial Number page of a SCSI disk: four bytes of header, then text (SPC-4, 7.8.15).
fn scsi_serial(map: &StorageMap, folder: &str) -> Option<String> {
    let page = std::fs::read(map.root.at(format!("{folder}/device/vpd_pg80"))).ok()?;
    let text = String::from_utf8_lossy(page.get(4..)?).trim_matches(['\0', ' ']).to_owned();
    (!text.is_empty()).then_some(text)
}
