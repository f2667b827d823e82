//! What is measured: a block device, a file, or a folder in which a file is made for it.
//!
//! Nothing of anybody's is at risk. A device that is in use is refused, by what lies on what and not by its name; a device is
//! written to only where its serial number was typed out; a file that is there is only read; a file that is written to is
//! made for it and has no name, so that nothing is left of it however the program ends.

mod device;
mod identity;
mod in_use;
mod openers;
mod scratch;
mod store;

use crate::error::{Error, Result};
use crate::layers::extent;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use whyslow_model::bench;
use whyslow_model::catalogue::{Mount, Queue};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::topology::Topology;
use whyslow_model::window::Window;
use whyslow_sense::{Root, Sampler};

/// What every device takes in one request.
const PAGE: u32 = 4096;

/// The share of a file that may never have been written: with more, what is measured is not the device. And the share that is
/// not worth a word.
const MOST_UNWRITTEN: f64 = 0.1;
const LITTLE_UNWRITTEN: f64 = 0.01;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The target.
    pub path: PathBuf,
    /// Whether it is written to.
    pub write: bool,
    /// Whether the page cache is passed by.
    pub direct: bool,
    /// The serial number of the device, typed out: all on it may be destroyed.
    pub destroy: Option<String>,
    /// Whether a device that is in use may be read, which adds load to it and changes nothing.
    pub in_use: bool,
    /// How large a file to make in a folder, bytes.
    pub size: u64,
}

/// A target that is open.
#[derive(Debug)]
pub(crate) struct Target {
    /// As the report has it.
    pub(crate) about: bench::Target,
    /// What requests go to.
    pub(crate) file: Arc<File>,
    /// The smallest block and step that O_DIRECT takes, bytes; 1 by way of the page cache.
    pub(crate) grain: u64,
    /// Whether it was made for this, and has nothing in it yet.
    pub(crate) scratch: bool,
    /// What is to be borne in mind.
    pub(crate) caveats: Vec<String>,
}

/// Where block devices, mounts and their stacking are looked up.
pub(crate) struct Map {
    root: Root,
    window: Window,
    topology: Topology,
}

impl Map {
    /// As the machine is now.
    pub(crate) fn draw(root: Root) -> Self {
        let snapshot = Sampler::of_storage(root.clone()).sample();
        Self::of(root, snapshot)
    }

    fn of(root: Root, snapshot: Snapshot) -> Self {
        let window = Window::new(vec![Snapshot { boot_ns: snapshot.boot_ns.max(1), ..snapshot }]);
        Self { topology: Topology::of(&window), root, window }
    }

    /// The mount that holds a file: the one whose mount point is the longest that leads to it.
    fn mount_of(&self, path: &Path) -> Option<&Mount> {
        let mounts = self.window.newest::<Mount>().into_values();
        mounts.filter(|mount| path.starts_with(&*mount.point)).max_by_key(|mount| mount.point.len())
    }

    /// What tells the file system of a folder from others, and its kind.
    ///
    /// # Errors
    /// Where the folder cannot be looked at.
    pub(crate) fn file_system(&self, folder: &Path) -> Result<(String, String)> {
        let path = fs::canonicalize(folder).map_err(|e| Error::at(folder, "cannot be opened", &e))?;
        let mount = self.mount_of(&path);
        let kind = mount.and_then(|mount| mount.kind.get()).unwrap_or_default().to_owned();
        // Subvolumes of a btrfs have device numbers of their own and share the room.
        let device = mount.and_then(|mount| mount.device.get()).filter(|device| self.queue(device).is_some());
        let number = || fs::metadata(&path).map_err(|e| Error::at(folder, "cannot be looked at", &e)).map(|m| m.dev());
        Ok((device.map_or_else(|| number().map(|number| number.to_string()), |device| Ok(device.to_owned()))?, kind))
    }

    /// What lies below a device, from the top down, each once.
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

    /// What a device lies on itself.
    pub(crate) fn directly_below(&self, device: &str) -> Vec<String> {
        self.topology.below(device).map(|name| name.to_string()).collect()
    }

    /// How a device is related to the one on it, in a word.
    pub(crate) fn relation(&self, upper: &str, lower: &str) -> Option<&str> {
        self.topology.relation(upper, lower)
    }

    /// Where a partition begins on its disk, bytes.
    pub(crate) fn start(&self, partition: &str) -> u64 {
        device::start(self, partition)
    }

    /// The disk that a device is, or is a part of.
    fn disk<'d>(&'d self, device: &'d str) -> &'d str {
        let disk = self.topology.below(device).find(|lower| self.relation(device, lower) == Some("partition"));
        disk.map_or(device, |disk| &**disk)
    }

    /// The largest request to a target that can be polled for, bytes: a larger one is cut, and the kernel does not poll for
    /// pieces (block/blk-merge.c).
    ///
    /// # Errors
    /// Where none can be, with the reason and what to do about it.
    pub(crate) fn polled(&self, target: &bench::Target) -> Result<u64> {
        let refused = |why: &str| Err(Error::new(format!("{} cannot be polled: {why}", target.path)));
        let Some(device) = target.device.as_deref().map(|device| self.disk(device)) else {
            return refused("it lies on no block device");
        };
        // Documentation/ABI/stable/sysfs-block, queue/io_poll.
        let setting = format!("sys/block/{}/queue/io_poll", device.replace('/', "!"));
        match self.root.number(&setting) {
            Some(1) => {
                let largest = self.queue(device).and_then(|queue| queue.max_request.get());
                Ok(largest.map_or(u64::from(PAGE), |bytes| bytes as u64))
            }
            Some(_) => refused(&format!(
                "/{setting} is 0; the driver needs queues for it, set when it is loaded: nvme.poll_queues=N, virtio_blk.poll_queues=N"
            )),
            None => refused(&format!("/{setting} does not tell that it can be")),
        }
    }

    /// Bytes that writing all of a device adds to the file systems below it, each with a folder there.
    pub(crate) fn unallocated(&self, device: &str) -> Vec<(PathBuf, u64)> {
        device::unallocated(self, device)
    }

    /// Whether a target's device counts all that is read from the target: it has not been told not to, and it is the only one
    /// below the file system.
    pub(crate) fn counts_all(&self, target: &bench::Target) -> bool {
        const OF_SEVERAL: [&str; 3] = ["btrfs", "bcachefs", "zfs"];
        let Some(device) = target.device.as_deref().map(|device| self.disk(device)) else { return false };
        let kind = target.file_system.as_deref().unwrap_or_default();
        let setting = format!("sys/block/{}/queue/iostats", device.replace('/', "!"));
        !OF_SEVERAL.contains(&kind) && self.root.number(&setting).is_none_or(|on| on > 0)
    }

    /// The settings and geometry of the disk that a device is, or is a part of.
    pub(crate) fn queue(&self, device: &str) -> Option<&Queue> {
        self.window.newest::<Queue>().get(self.disk(device)).copied()
    }
}

impl Target {
    /// Opens what is asked for.
    ///
    /// # Errors
    /// It is in use, is not there, is not what can be measured, or has no room; what to do about it.
    pub(crate) fn open(map: &Map, ask: &Ask) -> Result<Self> {
        // Links are followed: what counts is what they lead to.
        let path = fs::canonicalize(&ask.path).map_err(|e| Error::at(&ask.path, "cannot be opened", &e))?;
        let meta = fs::metadata(&path).map_err(|e| Error::at(&ask.path, "cannot be looked at", &e))?;
        let kind = meta.file_type();
        let mut target = if kind.is_block_device() {
            device::as_target(map, &path, meta.rdev(), ask)?
        } else if ask.destroy.is_some() {
            return Err(refused(ask, "is no block device: --destroy is for those"));
        } else if kind.is_dir() {
            scratch::make(map, &path, ask)?
        } else if kind.is_file() {
            existing(map, &path, &meta, ask)?
        } else {
            return Err(refused(ask, "is neither a block device nor a file nor a folder"));
        };
        target.about.path = ask.path.display().to_string();
        Ok(target)
    }

    /// Whether the page cache is passed by.
    pub(crate) fn is_direct(&self) -> bool {
        self.grain > 1
    }

    /// The largest part of it that whole blocks of this size fill, bytes.
    pub(crate) fn whole_blocks(&self, block: u32) -> u64 {
        self.about.bytes / u64::from(block.max(1)) * u64::from(block)
    }
}

/// Opens a file that is there: to be read, never to be written.
fn existing(map: &Map, path: &Path, meta: &fs::Metadata, ask: &Ask) -> Result<Target> {
    if ask.write {
        let folder = path.parent().unwrap_or(path).display();
        return Err(refused(
            ask,
            &format!("exists and is not overwritten: name the folder {folder}, a file is made in it"),
        ));
    }
    if meta.len() == 0 {
        return Err(refused(ask, "is empty: there is nothing to read"));
    }
    let file = open(path, false, ask.direct, 0).map_err(|e| cannot_open(ask, &e))?;
    let caveats = never_written(&file, meta.len(), &ask.path.display().to_string())?;
    Ok(on_mount(map, path, ask, file, ("file", meta.len()), caveats))
}

/// What to bear in mind of a file parts of which were never written: reads of those are answered by the file system and do not
/// reach the device.
///
/// # Errors
/// Where that is so much that what is measured would be something else than the device.
fn never_written(file: &File, size: u64, name: &str) -> Result<Vec<String>> {
    let missing = extent::written(file).map_or(0, |written| size.saturating_sub(written));
    let human = |bytes: u64| whyslow_model::human::quantity(bytes as f64, "bytes");
    let part = missing as f64 / size.max(1) as f64;
    if part > MOST_UNWRITTEN {
        return Err(Error::new(format!(
            "{name}: {} of {} were never written (holes or preallocated space), and reads of those do not reach the device: \
             choose a file with data in it, or a folder, in which a file is created and written first",
            human(missing),
            human(size)
        )));
    }
    let caveat = || {
        format!(
            "{name}: {} of {} were never written; reads of those do not reach the device",
            human(missing),
            human(size)
        )
    };
    Ok((part > LITTLE_UNWRITTEN).then(caveat).into_iter().collect())
}

/// A target on a file system.
fn on_mount(map: &Map, path: &Path, ask: &Ask, file: File, (kind, bytes): (&str, u64), caveats: Vec<String>) -> Target {
    let mount = map.mount_of(path);
    let device = mount.and_then(|mount| mount.device.get()).filter(|device| map.queue(device).is_some());
    let about = bench::Target {
        path: String::new(),
        kind: kind.into(),
        device: device.map(str::to_owned),
        file_system: mount.and_then(|mount| mount.kind.get()).map(str::to_owned),
        mount: mount.map(|mount| format!("{} ({})", mount.point, mount.options.get().unwrap_or_default())),
        below: device.map(|device| map.below(device)).unwrap_or_default(),
        bytes,
    };
    let grain = if ask.direct { device.map_or(512, |device| device::grain(map, device)) } else { 1 };
    Target { about, file: Arc::new(file), grain, scratch: kind == "folder", caveats }
}

/// Opens a path with what a benchmark wants of it.
fn open(path: &Path, write: bool, direct: bool, flags: i32) -> io::Result<File> {
    let flags = flags | if direct { libc::O_DIRECT } else { 0 };
    OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)
}

/// Why a target could not be opened, and what may help.
fn cannot_open(ask: &Ask, error: &io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::EINVAL | libc::EOPNOTSUPP) if ask.direct => {
            Error::at(&ask.path, "cannot be opened past the page cache (--cache warm goes by way of it)", error)
        }
        _ => Error::at(&ask.path, "cannot be opened", error),
    }
}

fn refused(ask: &Ask, why: &str) -> Error {
    Error::new(format!("{} {why}", ask.path.display()))
}
