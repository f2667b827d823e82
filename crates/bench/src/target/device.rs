//! Opening a block device.

use super::identity;
use super::in_use::uses;
use super::store;
use super::{Ask, Map, Target, cannot_open, open, refused};
use crate::error::{Error, Result};
use crate::layers::extent;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};
use whyslow_model::bench;

/// How long a device may seem claimed of which nobody is to be seen: what the ring of a program held that was killed, the
/// kernel lets go of some time after it has ended (io_uring/io_uring.c, `io_ring_exit_work`).
const LINGERING: Duration = Duration::from_millis(500);
/// How often it is tried again meanwhile.
const AGAIN: Duration = Duration::from_millis(10);

/// Opens the device with this number, for nobody else to claim meanwhile.
fn claim(map: &Map, path: &Path, number: u64, ask: &Ask) -> Result<(String, File)> {
    let name = name(map, number).ok_or_else(|| refused(ask, "is no device that this kernel has"))?;
    if ask.write {
        may_destroy(map, &name, ask)?;
    }
    let shared = ask.in_use && !ask.write;
    if !shared {
        let uses = uses(map, &name);
        // What else leads to the same data does not matter to reads: they change nothing.
        let uses = if uses.is_empty() && ask.write { store::uses(map, &name) } else { uses };
        if !uses.is_empty() {
            return Err(refused(ask, &format!("is in use: {}{}", uses.join("; "), instead(ask))));
        }
    }
    // Without O_CREAT, O_EXCL on a block device claims it: whatever else claims it, a mount or an array, excludes us and is
    // excluded by us (open(2)).
    let flags = if shared { 0 } else { libc::O_EXCL };
    let file = open_patiently(path, ask, flags).map_err(|e| match e.raw_os_error() {
        Some(libc::EBUSY) => {
            let why = "is in use: the kernel says that it, or a part of it, is claimed: mounted in another namespace, part of \
                       an array or volume, or opened exclusively by a program";
            refused(ask, &format!("{why}{}", instead(ask)))
        }
        _ => cannot_open(ask, &e),
    })?;
    let opened = file.metadata().map_err(|e| Error::at(&ask.path, "cannot be looked at", &e))?;
    if opened.rdev() != number {
        return Err(refused(ask, "became another device while it was being opened"));
    }
    Ok((name, file))
}

/// Opens a device; where it is claimed, once more for as long as that may pass.
fn open_patiently(path: &Path, ask: &Ask, flags: i32) -> io::Result<File> {
    let patience = Instant::now() + LINGERING;
    loop {
        match open(path, ask.write, ask.direct, flags) {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && Instant::now() < patience => sleep(AGAIN),
            opened => return opened,
        }
    }
}

/// A block device as a target.
pub(super) fn as_target(map: &Map, path: &Path, number: u64, ask: &Ask) -> Result<Target> {
    let (device, file) = claim(map, path, number, ask)?;
    let bytes = size(map, &device).ok_or_else(|| refused(ask, "has no size: there is nothing to read"))?;
    let kind = if map.topology.is_partition(&device) { "partition" } else { "device" };
    let about = bench::Target {
        path: String::new(),
        kind: kind.into(),
        below: map.below(&device),
        device: Some(device.clone()),
        file_system: None,
        mount: None,
        bytes,
    };
    let grain = if ask.direct { grain(map, &device) } else { 1 };
    Ok(Target { about, file: Arc::new(file), grain, scratch: false, caveats: thin(map, &device) })
}

/// What to bear in mind of a loop device whose file has parts that were never written.
fn thin(map: &Map, device: &str) -> Vec<String> {
    let path = map.root.maybe(&format!("{}/loop/backing_file", folder(device)));
    let file = path.and_then(|path| File::open(path.trim_end_matches('\n')).ok());
    let Some((file, size)) = file.and_then(|file| file.metadata().ok().map(|meta| (file, meta.len()))) else {
        return Vec::new();
    };
    let missing = extent::written(&file).map_or(0, |written| size.saturating_sub(written));
    let human = |bytes: u64| whyslow_model::human::quantity(bytes as f64, "bytes");
    let what = "were never written; reads of those do not reach the disk below";
    let caveat = || format!("the file behind {device}: {} of {} {what}", human(missing), human(size));
    (missing > size / 100).then(caveat).into_iter().collect()
}

/// Bytes that writing all of a device adds to the file systems below it, each with the folder of the file that grows: loop
/// devices on files that are not allocated whole.
pub(super) fn unallocated(map: &Map, device: &str) -> Vec<(PathBuf, u64)> {
    let stack = std::iter::once(device.to_owned()).chain(map.below(device));
    let grows = |device: String| {
        let path = map.root.maybe(&format!("{}/loop/backing_file", folder(&device)))?;
        let path = Path::new(path.trim_end_matches('\n'));
        let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        // st_blocks counts 512 bytes each (stat(2)).
        let missing = meta.len().saturating_sub(meta.blocks().saturating_mul(512));
        (missing > 0).then_some((path.parent()?.to_owned(), missing))
    };
    stack.filter_map(grows).collect()
}

/// What to do instead, where only reading was asked for.
fn instead(ask: &Ask) -> &'static str {
    if ask.write { "" } else { " (--in-use reads it all the same, which adds load and changes nothing)" }
}

/// The kernel's name of the device with this number.
fn name(map: &Map, number: u64) -> Option<String> {
    let (major, minor) = (libc::major(number), libc::minor(number));
    let link = map.root.link(&format!("sys/dev/block/{major}:{minor}"))?;
    link.rsplit('/').next().map(|name| name.replace('!', "/"))
}

/// Where a partition begins on its disk, bytes.
pub(super) fn start(map: &Map, partition: &str) -> u64 {
    map.root.number(&format!("{}/start", folder(partition))).unwrap_or(0).saturating_mul(512)
}

/// Its size, bytes; none where it has none.
fn size(map: &Map, device: &str) -> Option<u64> {
    let sectors = map.root.number(&format!("{}/size", folder(device)))?;
    // Sectors are 512 bytes here, whatever the device's own (Documentation/ABI/stable/sysfs-block).
    sectors.checked_mul(512).filter(|&bytes| bytes > 0)
}

/// Where sysfs has a device, partitions included.
pub(super) fn folder(device: &str) -> String {
    format!("sys/class/block/{}", device.replace('/', "!"))
}

/// The smallest unit a device is addressed in, bytes.
pub(super) fn grain(map: &Map, device: &str) -> u64 {
    map.queue(device).and_then(|queue| queue.logical_block.get()).map_or(512, |bytes| bytes as u64).max(512)
}

/// Whether the device's serial number was typed out, and it can be written to.
fn may_destroy(map: &Map, device: &str, ask: &Ask) -> Result<()> {
    let identity = identity::of(map, device);
    match &ask.destroy {
        None => {
            return Err(refused(
                ask,
                &format!("would be overwritten: to allow that, type {} after --destroy", identity.is),
            ));
        }
        Some(typed) if *typed != identity.text => {
            return Err(refused(
                ask,
                &format!("is not the device with '{typed}': after --destroy comes {}", identity.is),
            ));
        }
        Some(_) => {}
    }
    if map.root.number(&format!("{}/ro", folder(device))) == Some(1) {
        return Err(refused(ask, "is read-only"));
    }
    Ok(())
}
