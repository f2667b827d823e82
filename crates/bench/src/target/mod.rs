//! Benchmark targets: a block device, a file, or a folder, in which a temporary file is created.
//!
//! No existing data is at risk. Devices in use are refused, whatever path leads to them. A device is written only if
//! its serial number was typed, and all other devices that lead to its data are claimed meanwhile. Existing files are
//! only read. Temporary files have no name, so that nothing remains of them, however the program ends.

mod backing_file;
mod backing_store;
mod device;
mod exports;
mod in_use;
mod shared_data;

use crate::extents;
use crate::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use whyslow_documents::bench;
use whyslow_model::catalogue::{Mount, Queue};
use whyslow_model::human;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::topology::Topology;
use whyslow_model::window::Window;
use whyslow_sense::{Root, Sampler};

/// Request size that every device accepts.
const PAGE: u32 = 4096;

/// Shares of never-written data: above the first, the measurement would not reflect the device; below the second, it is
/// not mentioned.
const MOST_UNWRITTEN: f64 = 0.1;
const LITTLE_UNWRITTEN: f64 = 0.01;

/// Target to open, and how.
#[derive(Clone, Debug)]
pub struct TargetSpec {
    /// Block device, file, or folder.
    pub path: PathBuf,
    /// Whether the target is written to.
    pub write: bool,
    /// Whether to use direct I/O, bypassing the page cache.
    pub direct: bool,
    /// Serial number of the device that may be overwritten.
    pub destroy: Option<String>,
    /// Whether a device in use may be read: this adds load but changes nothing.
    pub in_use: bool,
    /// Size of a temporary file in a folder, in bytes.
    pub size: u64,
}

#[derive(Debug)]
pub(crate) struct BenchTarget {
    pub(crate) about: bench::TargetInfo,
    pub(crate) file: Arc<File>,
    /// Unit of direct I/O in bytes; 1 for buffered I/O.
    pub(crate) grain: u64,
    /// True for an empty temporary file.
    pub(crate) temporary: bool,
    pub(crate) caveats: Vec<String>,
    /// Other devices with the same data, claimed while the target may be written to.
    pub(crate) guards: Vec<File>,
}

/// Block devices, mounts and device stacking of the machine.
pub(crate) struct StorageMap {
    root: Root,
    window: Window,
    topology: Topology,
}

impl StorageMap {
    pub(crate) fn new(root: Root) -> Self {
        let snapshot = Sampler::of_storage(root.clone()).sample();
        Self::from_snapshot(root, snapshot)
    }

    fn from_snapshot(root: Root, snapshot: Snapshot) -> Self {
        let window = Window::new(vec![Snapshot { boot_ns: snapshot.boot_ns.max(1), ..snapshot }]);
        Self { topology: Topology::from_window(&window), root, window }
    }

    /// Returns the mount with the longest mount point that contains the file.
    fn mount_of(&self, path: &Path) -> Option<&Mount> {
        let mounts = self.window.newest::<Mount>().into_values();
        mounts.filter(|mount| path.starts_with(&*mount.point)).max_by_key(|mount| mount.point.len())
    }

    /// Returns an identifier of a folder's file system, and its type.
    pub(crate) fn file_system(&self, folder: &Path) -> Result<(String, String)> {
        let path = fs::canonicalize(folder).map_err(|e| Error::at(folder, "cannot be opened", &e))?;
        let mount = self.mount_of(&path);
        let kind = mount.and_then(|mount| mount.kind.get()).unwrap_or_default().to_owned();
        // Subvolumes of a btrfs have device numbers of their own, but share its space.
        let device = mount.and_then(|mount| mount.device.get()).filter(|device| self.queue(device).is_some());
        let number =
            || fs::metadata(&path).map_err(|e| Error::at(folder, "cannot read its metadata", &e)).map(|m| m.dev());
        Ok((device.map_or_else(|| number().map(|number| number.to_string()), |device| Ok(device.to_owned()))?, kind))
    }

    /// Returns all devices below a device, from the top down.
    pub(crate) fn below(&self, device: &str) -> Vec<String> {
        let mut below: Vec<String> = Vec::new();
        let mut level = vec![device.to_owned()];
        while !level.is_empty() {
            let next = level.iter().flat_map(|upper| self.topology.below(upper)).map(|name| name.to_string());
            level = next.filter(|name| name != device && !below.contains(name)).collect();
            level.dedup();
            below.extend(level.iter().cloned());
        }
        below
    }

    pub(crate) fn directly_below(&self, device: &str) -> Vec<String> {
        self.topology.below(device).map(|name| name.to_string()).collect()
    }

    /// Returns how a device uses the one below it: `partition`, `loop`, `dm`, `md`.
    pub(crate) fn relation(&self, upper: &str, lower: &str) -> Option<&str> {
        self.topology.relation(upper, lower)
    }

    /// Returns the name of the block device that a path leads to.
    pub(crate) fn device_of(&self, path: &Path) -> Option<String> {
        let meta = fs::metadata(path).ok().filter(|meta| meta.file_type().is_block_device())?;
        device::name(self, meta.rdev())
    }

    /// Returns the text that must be typed before a device is overwritten.
    pub(crate) fn identity(&self, device: &str) -> String {
        device::identity(self, device).text
    }

    /// Returns whether two devices are the same, one is a part of the other, or both store their data in the same
    /// place.
    pub(crate) fn have_common_data(&self, device: &str, other: &str) -> bool {
        backing_store::have_common_data(self, device, other)
    }

    /// Returns the offset of a partition on its disk, in bytes.
    pub(crate) fn start(&self, partition: &str) -> u64 {
        device::start(self, partition)
    }

    /// Returns a number from a file in /sys/block/DEVICE; for a partition, that of its disk.
    pub(crate) fn block_attribute(&self, device: &str, file: &str) -> Option<u64> {
        self.root.number(&format!("sys/block/{}/{file}", self.disk(device).replace('/', "!")))
    }

    /// Returns the disk of a partition; for other devices, the device itself.
    pub(crate) fn disk<'d>(&'d self, device: &'d str) -> &'d str {
        let disk = self.topology.below(device).find(|lower| self.relation(device, lower) == Some("partition"));
        disk.map_or(device, |disk| &**disk)
    }

    /// Returns the largest request that can be polled for, in bytes: larger ones are split, and the kernel does not
    /// poll for splits (block/blk-merge.c). Fails if the device cannot be polled.
    pub(crate) fn largest_polled(&self, target: &bench::TargetInfo) -> Result<u64> {
        let refused = |why: &str| Err(Error::new(format!("{} cannot be polled: {why}", target.path)));
        let Some(device) = target.device.as_deref().map(|device| self.disk(device)) else {
            return refused("it is not on a block device");
        };
        // See Documentation/ABI/stable/sysfs-block, queue/io_poll.
        let setting = format!("sys/block/{}/queue/io_poll", device.replace('/', "!"));
        match self.block_attribute(device, "queue/io_poll") {
            Some(1) => {
                let largest = self.queue(device).and_then(|queue| queue.max_request.get());
                Ok(largest.map_or(u64::from(PAGE), |bytes| bytes as u64))
            }
            Some(_) => refused(&format!(
                "/{setting} is 0; the driver needs queues for it, set when it is loaded: nvme.poll_queues=N, virtio_blk.poll_queues=N"
            )),
            None => refused(&format!("/{setting} does not exist: the driver does not support it")),
        }
    }

    /// Returns the bytes that overwriting a device adds to the file systems below it, each with a folder there.
    pub(crate) fn unallocated(&self, device: &str) -> Vec<(PathBuf, u64)> {
        device::unallocated(self, device)
    }

    /// Returns whether the device counts all reads of the target: its counters are enabled, and it is the only device
    /// of the file system.
    pub(crate) fn counts_all(&self, target: &bench::TargetInfo) -> bool {
        const OF_SEVERAL: [&str; 3] = ["btrfs", "bcachefs", "zfs"];
        let Some(device) = target.device.as_deref().map(|device| self.disk(device)) else { return false };
        let kind = target.file_system.as_deref().unwrap_or_default();
        !OF_SEVERAL.contains(&kind) && self.block_attribute(device, "queue/iostats").is_none_or(|on| on > 0)
    }

    /// Returns the queue of a device; for a partition, that of its disk.
    pub(crate) fn queue(&self, device: &str) -> Option<&Queue> {
        self.window.newest::<Queue>().get(self.disk(device)).copied()
    }
}

impl BenchTarget {
    pub(crate) fn open(map: &StorageMap, ask: &TargetSpec) -> Result<Self> {
        // Follow symbolic links: their targets count.
        let path = fs::canonicalize(&ask.path).map_err(|e| Error::at(&ask.path, "cannot be opened", &e))?;
        let meta = fs::metadata(&path).map_err(|e| Error::at(&ask.path, "cannot read its metadata", &e))?;
        let kind = meta.file_type();
        let mut target = if kind.is_block_device() {
            device::as_target(map, &path, meta.rdev(), ask)?
        } else if ask.destroy.is_some() {
            return Err(refused(ask, "is not a block device: --destroy only applies to those"));
        } else if kind.is_dir() {
            temporary(map, &path, ask)?
        } else if kind.is_file() {
            existing(map, &path, &meta, ask)?
        } else {
            return Err(refused(ask, "is neither a block device, a file nor a folder"));
        };
        target.about.path = ask.path.display().to_string();
        Ok(target)
    }

    /// Opens the same file or device through the page cache. A device stays claimed by the first.
    pub(crate) fn buffered(&self) -> Result<Self> {
        let path = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = open(Path::new(&path), self.temporary, false, 0)
            .map_err(|e| Error::at(Path::new(&self.about.path), "cannot be opened for buffered I/O", &e))?;
        Ok(Self {
            about: self.about.clone(),
            file: Arc::new(file),
            grain: 1,
            temporary: self.temporary,
            caveats: Vec::new(),
            guards: Vec::new(),
        })
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.grain > 1
    }

    pub(crate) fn whole_blocks(&self, block: u32) -> u64 {
        self.about.bytes / u64::from(block.max(1)) * u64::from(block)
    }
}

/// Creates an empty temporary file of the requested size, without a name: it is gone when the program ends, even if it
/// is killed.
fn temporary(map: &StorageMap, folder: &Path, ask: &TargetSpec) -> Result<BenchTarget> {
    let file = unnamed(folder, ask.direct).map_err(|e| cannot_open(ask, &e))?;
    file.set_len(ask.size).map_err(|e| Error::at(&ask.path, "no file of this size can be made", &e))?;
    Ok(on_mount(map, folder, ask, file, ("folder", ask.size), Vec::new()))
}

/// Opens an unnamed file with O_TMPFILE (open(2)), or unlinks a file once open if the file system does not support
/// that.
fn unnamed(folder: &Path, direct: bool) -> io::Result<File> {
    match open(folder, true, direct, libc::O_TMPFILE) {
        // Kernels without O_TMPFILE return EISDIR, file systems without it EOPNOTSUPP.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR)) => unlinked(folder, direct),
        made => made,
    }
}

fn unlinked(folder: &Path, direct: bool) -> io::Result<File> {
    let path = folder.join(format!(".whyslow-bench-{}", std::process::id()));
    let flags = if direct { libc::O_DIRECT } else { 0 };
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).custom_flags(flags).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Opens an existing file for reading; existing files are never written.
fn existing(map: &StorageMap, path: &Path, meta: &fs::Metadata, ask: &TargetSpec) -> Result<BenchTarget> {
    if ask.write {
        let folder = path.parent().unwrap_or(path).display();
        return Err(refused(
            ask,
            &format!("exists and is not overwritten: name the folder {folder}, in which a temporary file is created"),
        ));
    }
    if meta.len() == 0 {
        return Err(refused(ask, "is empty: there is nothing to read"));
    }
    let file = open(path, false, ask.direct, 0).map_err(|e| cannot_open(ask, &e))?;
    let caveats = never_written(&file, meta.len(), &ask.path.display().to_string())?;
    Ok(on_mount(map, path, ask, file, ("file", meta.len()), caveats))
}

/// Returns a caveat about parts of a file that were never written, so that reads of them do not reach the device; an
/// error if there are too many.
fn never_written(file: &File, size: u64, name: &str) -> Result<Vec<String>> {
    let missing = extents::written(file).map_or(0, |written| size.saturating_sub(written));
    let part = missing as f64 / size.max(1) as f64;
    if part > MOST_UNWRITTEN {
        return Err(Error::new(format!(
            "{name}: {} of {} were never written (holes or preallocated space), and reads of those do not reach the device: \
             choose a file with data in it, or a folder, in which a file is created and written first",
            human::bytes(missing),
            human::bytes(size)
        )));
    }
    let caveat = || {
        format!(
            "{name}: {} of {} were never written; reads of those do not reach the device",
            human::bytes(missing),
            human::bytes(size)
        )
    };
    Ok((part > LITTLE_UNWRITTEN).then(caveat).into_iter().collect())
}

fn on_mount(
    map: &StorageMap,
    path: &Path,
    ask: &TargetSpec,
    file: File,
    (kind, bytes): (&str, u64),
    caveats: Vec<String>,
) -> BenchTarget {
    let mount = map.mount_of(path);
    let device = mount.and_then(|mount| mount.device.get()).filter(|device| map.queue(device).is_some());
    let about = bench::TargetInfo {
        path: String::new(),
        kind: kind.into(),
        device: device.map(str::to_owned),
        file_system: mount.and_then(|mount| mount.kind.get()).map(str::to_owned),
        mount: mount.map(|mount| format!("{} ({})", mount.point, mount.options.get().unwrap_or_default())),
        below: device.map(|device| map.below(device)).unwrap_or_default(),
        bytes,
    };
    let grain = if ask.direct { device.map_or(512, |device| device::grain(map, device)) } else { 1 };
    BenchTarget { about, file: Arc::new(file), grain, temporary: kind == "folder", caveats, guards: Vec::new() }
}

fn open(path: &Path, write: bool, direct: bool, flags: i32) -> io::Result<File> {
    let flags = flags | if direct { libc::O_DIRECT } else { 0 };
    OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)
}

fn cannot_open(ask: &TargetSpec, error: &io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::EOPNOTSUPP) if ask.direct => {
            Error::at(&ask.path, "cannot be opened for direct I/O (--cache warm uses the page cache instead)", error)
        }
        _ => Error::at(&ask.path, "cannot be opened", error),
    }
}

fn refused(ask: &TargetSpec, why: &str) -> Error {
    Error::new(format!("{} {why}", ask.path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_made_without_a_name() {
        let folder = whyslow_testing::folder_in("/var/tmp");
        for make in [unnamed, unlinked] {
            let mut file = make(folder.path(), false).unwrap();
            file.write_all(b"x").unwrap();
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn an_existing_file_is_not_overwritten() {
        let folder = whyslow_testing::folder_in("/var/tmp");
        let path = folder.path().join(format!(".whyslow-bench-{}", std::process::id()));
        fs::write(&path, "precious").unwrap();
        assert_eq!(unlinked(folder.path(), false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
