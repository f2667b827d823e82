//! /sys/block: the stacking of block devices (Documentation/ABI/testing/sysfs-block, sysfs-block-loop, sysfs-block-zram).
//!
//! A partition is stacked on its disk, a loop device on the device of the file system that holds its file, dm and md on their
//! `slaves`, an NVMe disk on its paths, and zram on its backing device, if any.
//!
//! A loop device whose file is on a file system without a block device (tmpfs, FUSE, NFS, overlay) is stacked on the mount's
//! `device`: the name of the FUSE program, the server, `tmpfs`. The file's path is looked up among the mounts, not opened, as
//! that could hang on a dead server; a file in another mount namespace is therefore attributed to the mount that its path leads
//! to in ours.

use super::device;
use super::mountinfo;
use super::nvme_paths;
use crate::{Root, Source, SourceError, SourceInfo};
use std::time::{Duration, Instant};
use whyslow_model::catalogue::Layer;
use whyslow_model::key::LinkKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Name, State};

/// The layers are read again after this time even without a uevent: not every change causes one.
const TTL: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Layers {
    cached: Option<CachedLayers>,
}

/// Every sample contains all layers, so that a window of any samples knows its topology.
struct CachedLayers {
    rows: Vec<Layer>,
    events: Option<u64>,
    read_at: Instant,
}

impl Source for Layers {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("sys/block", "how block devices are stacked")
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        // The kernel's count of uevents: devices were added, removed, set up or changed.
        let events = root.polled_number("sys/kernel/uevent_seqnum");
        let cached = match self.cached.take() {
            Some(cached) if events.is_some() && cached.events == events && cached.read_at.elapsed() < TTL => cached,
            _ => CachedLayers { rows: layers(root)?, events, read_at: Instant::now() },
        };
        out.block.layer.clone_from(&cached.rows);
        self.cached = Some(cached);
        Ok(())
    }
}

fn layers(root: &Root) -> Result<Vec<Layer>, SourceError> {
    let disks = device::disks(root);
    if disks.is_empty() {
        return Err(SourceError::Absent("/sys/block has no devices".into()));
    }
    let mut rows = Vec::new();
    for disk in &disks {
        rows.extend(
            device::partitions(root, disk).iter().map(|part| layer(part, device::kernel_name(disk), "partition")),
        );
        rows.extend(members(root, disk));
        rows.extend(nvme_paths::paths(disk, &disks).iter().map(|path| layer(disk, path.as_str(), "nvme")));
        rows.extend(on_file(root, disk));
        rows.extend(zram_backing(root, disk));
    }
    Ok(rows)
}

/// Reads the `slaves` of a device of dm, md or another stacking driver (bcache).
fn members(root: &Root, disk: &str) -> Vec<Layer> {
    let driver = disk.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
    let slaves = root.list(&format!("sys/block/{disk}/slaves"));
    slaves.iter().map(|member| layer(disk, device::kernel_name(member), driver)).collect()
}

/// Returns the layer of a loop device on the device that holds its backing file.
fn on_file(root: &Root, disk: &str) -> Option<Layer> {
    let path = root.maybe(&format!("sys/block/{disk}/loop/backing_file"))?;
    let path = path.trim_end_matches('\n');
    let file = path.strip_suffix(" (deleted)").unwrap_or(path);
    let mounts = mountinfo::read(root).ok()?;
    // The file can also be the node of a block device.
    let lower = match device::by_path(root, file) {
        Some(device) => device.into(),
        None => mountinfo::holder(&mounts, file)?.device(root),
    };
    let number = |file: &str| root.number(&format!("sys/block/{disk}/loop/{file}"));
    let (offset, direct) = (number("offset").into(), number("dio").into());
    Some(Layer { file: State::from(path), offset, direct, ..layer(disk, lower, "loop") })
}

/// Returns the layer of zram on its backing device, to which it writes incompressible and idle pages.
fn zram_backing(root: &Root, disk: &str) -> Option<Layer> {
    let path = root.word(&format!("sys/block/{disk}/backing_dev"))?;
    device::by_path(root, &path).map(|lower| layer(disk, lower, "zram"))
}

fn layer(upper: &str, lower: impl Into<Name>, kind: &str) -> Layer {
    let link = LinkKey { upper: device::kernel_name(upper).into(), lower: lower.into() };
    Layer { kind: kind.into(), ..Layer::new(link) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CapturedTree, LoopDevice, read};
    use whyslow_model::topology::Topology;
    use whyslow_model::window::Window;

    fn described(root: &Root) -> Vec<String> {
        let row = |l: &Layer| format!("{} {} {}", l.link, l.kind.get().unwrap(), l.file.get().unwrap_or("-"));
        let mut rows: Vec<String> = layers(root).unwrap().iter().map(row).collect();
        rows.sort();
        rows
    }

    fn stacked() -> CapturedTree {
        let tree = CapturedTree::with_files(&[
            ("sys/block/sda/sda1/partition", "1\n"),
            ("sys/block/sda/sda2/partition", "2\n"),
            ("sys/block/sda/queue/scheduler", "none\n"),
            ("sys/block/md127/slaves/sda2/size", "1\n"),
            ("sys/block/dm-0/slaves/md127/size", "1\n"),
            ("sys/block/loop0/loop/backing_file", "/srv/disk image.img\n"),
            ("sys/block/loop1/loop/backing_file", "/run/x.img (deleted)\n"),
            ("sys/block/loop2/loop/backing_file", "/slow/x.img\n"),
            ("sys/block/loop3/size", "0\n"),
            ("sys/block/zram0/backing_dev", "/dev/sda1\n"),
            ("sys/block/nvme0n1/size", "1\n"),
            ("sys/block/nvme0c0n1/size", "1\n"),
            ("sys/class/block/sda1/size", "1\n"),
            (
                "proc/self/mountinfo",
                "1 0 253:0 / / rw - ext4 /dev/mapper/root rw\n\
                 2 1 0:30 / /run rw - tmpfs tmpfs rw\n\
                 3 1 0:31 / /slow rw - fuse.slow slowdisk rw\n",
            ),
        ]);
        tree.link("sys/dev/block/253:0", "../../devices/virtual/block/dm-0");
        tree
    }

    #[test]
    fn every_kind_of_layer_is_found() {
        let expected = [
            "dm-0 on md127 dm -",
            "loop0 on dm-0 loop /srv/disk image.img",
            "loop1 on tmpfs loop /run/x.img (deleted)",
            "loop2 on slowdisk loop /slow/x.img",
            "md127 on sda2 md -",
            "nvme0n1 on nvme0c0n1 nvme -",
            "sda1 on sda partition -",
            "sda2 on sda partition -",
            "zram0 on sda1 zram -",
        ];
        assert_eq!(described(&stacked().root()), expected);
    }

    #[test]
    fn layers_are_read_again_after_a_device_event() {
        let tree = stacked();
        tree.write("sys/kernel/uevent_seqnum", "7\n");
        let mut source = Layers::default();
        let mut count = || {
            let (outcome, s) = tree.read(&mut source);
            assert_eq!(outcome, Ok(()));
            s.block.layer.len()
        };
        assert_eq!(count(), 9);
        tree.write("sys/block/sda/sda3/partition", "3\n");
        assert_eq!(count(), 9);
        tree.write("sys/kernel/uevent_seqnum", "8\n");
        assert_eq!(count(), 10);
    }

    #[test]
    fn without_sysfs_it_is_absent() {
        assert!(matches!(layers(&CapturedTree::with_files(&[]).root()), Err(SourceError::Absent(_))));
    }

    #[test]
    fn a_loop_device_is_on_the_disk_of_its_file() {
        let mut source = Layers::default();
        read(&mut source);
        let Some(device) = LoopDevice::new("/var/tmp", 1 << 20) else { return };
        let s = Snapshot { boot_ns: 1, ..read(&mut source) };
        let root = Root::live();
        let below = mountinfo::holder(&mountinfo::read(&root).unwrap(), "/var/tmp/x").unwrap().device(&root);
        let topology = Topology::from_window(&Window::new(vec![s]));
        assert!(topology.rests_on(device.name(), &below), "{} on {below}", device.node);
    }
}
