use super::*;
use crate::cpu_topology;
use crate::target::device;
use crate::target::shared_data::SharedData;
use std::fs;
use std::path::Path;
use whyslow_sense::Sampler;

/// Returns a map of a machine with these files.
fn map(files: &[(&str, &str)]) -> (tempfile::TempDir, StorageMap) {
    let (folder, root) = cpu_topology::tests::machine(files);
    link(folder.path(), "sys/dev/block/8:1", "../../block/sda/sda1");
    let snapshot = Sampler::of_storage(root.clone()).sample();
    let map = StorageMap::from_snapshot(root, snapshot);
    (folder, map)
}

fn link(folder: &Path, from: &str, to: &str) {
    let from = folder.join(from);
    fs::create_dir_all(from.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(to, from).unwrap();
}

const DISKS: &str = "   8       0 sda 1 0 8 1 1 0 8 1 0 1 1\n   8       1 sda1 1 0 8 1 1 0 8 1 0 1 1\n   \
                     8       2 sda2 1 0 8 1 1 0 8 1 0 1 1\n   8      16 sdb 1 0 8 1 1 0 8 1 0 1 1\n 253       0 dm-0 1 0 8 1 1 0 8 1 0 1 1\n   \
                     9       0 md0 1 0 8 1 1 0 8 1 0 1 1\n   7       0 loop0 1 0 8 1 1 0 8 1 0 1 1\n";

/// Returns a machine with a disk with two partitions, a second disk, and `more`.
fn machine(more: &[(&str, &str)]) -> (tempfile::TempDir, StorageMap) {
    let mut files = vec![
        ("proc/diskstats", DISKS),
        ("sys/block/sda/sda1/partition", "1\n"),
        ("sys/block/sda/sda2/partition", "2\n"),
        ("sys/block/sdb/size", "2048\n"),
        ("sys/class/block/sdb/size", "2048\n"),
        ("sys/class/block/sda/size", "4096\n"),
    ];
    files.extend(more);
    map(&files)
}

#[test]
fn nothing_uses_an_empty_disk() {
    let (_folder, map) = machine(&[]);
    for device in ["sda", "sda1", "sdb"] {
        assert_eq!(uses(&map, device), [""; 0], "{device}");
    }
}

#[test]
fn a_mounted_partition_is_a_use_of_its_disk_and_not_of_its_neighbour() {
    let (_folder, map) = machine(&[("proc/self/mountinfo", "1 0 8:1 / /srv rw - ext4 /dev/sda1 rw\n")]);
    assert_eq!(uses(&map, "sda"), ["sda1 is mounted on /srv"]);
    assert_eq!(uses(&map, "sda1"), ["sda1 is mounted on /srv"]);
    assert_eq!(uses(&map, "sda2"), [""; 0]);
}

#[test]
fn a_volume_on_a_partition_and_its_mount_are_uses_of_the_disk() {
    let (folder, map) = machine(&[
        ("sys/block/dm-0/slaves/sda2/size", "1\n"),
        ("sys/class/block/sda2/holders/dm-0/size", "1\n"),
        ("proc/self/mountinfo", "1 0 253:0 / /data rw - xfs /dev/mapper/vg-data rw\n"),
    ]);
    // The mount is found by its device number.
    link(folder.path(), "sys/dev/block/253:0", "../../devices/virtual/block/dm-0");
    let map = StorageMap::from_snapshot(map.root.clone(), Sampler::of_storage(map.root.clone()).sample());
    assert_eq!(uses(&map, "sda"), ["dm-0 is mounted on /data", "dm-0 is stacked on sda2"]);
}

#[test]
fn a_member_of_an_array_is_in_use() {
    let (_folder, map) = machine(&[("sys/block/md0/slaves/sdb/size", "1\n")]);
    assert_eq!(uses(&map, "sdb"), ["md0 is stacked on sdb"]);
}

#[test]
fn a_holder_that_only_sysfs_names_is_a_use() {
    let (_folder, map) = machine(&[("sys/class/block/sdb/holders/bcache0/size", "1\n")]);
    assert_eq!(uses(&map, "sdb"), ["bcache0 is stacked on sdb"]);
}

#[test]
fn swap_is_a_use() {
    let swaps = "Filename Type Size Used Priority\n/dev/sda2 partition 1024 0 -2\n";
    let (_folder, map) = machine(&[("proc/swaps", swaps)]);
    assert_eq!(uses(&map, "sda"), ["sda2 is swap"]);
    assert_eq!(uses(&map, "sda1"), [""; 0]);
}

#[test]
fn a_loop_device_on_the_device_is_a_use() {
    let (_folder, map) = machine(&[
        ("sys/block/loop0/loop/backing_file", "/dev/sdb\n"),
        ("proc/self/mountinfo", "1 0 0:5 / /dev rw - devtmpfs devtmpfs rw\n"),
    ]);
    assert_eq!(uses(&map, "sdb"), ["loop0 is stacked on sdb"]);
}

#[test]
fn every_member_of_a_btrfs_is_in_use() {
    let (_folder, map) = machine(&[("sys/fs/btrfs/0a1b/devices/sdb/size", "1\n")]);
    assert_eq!(uses(&map, "sdb"), ["sdb belongs to a mounted btrfs"]);
}

#[test]
fn a_device_is_identified_by_what_it_has() {
    let of = |files: &[(&str, &str)], device: &str| {
        let (_folder, map) = machine(files);
        device::identity(&map, device).text
    };
    assert_eq!(of(&[("sys/class/block/sdb/serial", "S3RIAL\n")], "sdb"), "S3RIAL");
    assert_eq!(of(&[("sys/class/block/sda/device/vpd_pg80", "\0\u{40}\0\u{8}WD-1234 ")], "sda"), "WD-1234");
    assert_eq!(of(&[("sys/class/block/sda/device/wwid", "naa.5000\n")], "sda1"), "naa.5000", "a part has its disk's");
    assert_eq!(of(&[("sys/class/block/loop0/loop/backing_file", "/srv/disk image\n")], "loop0"), "/srv/disk image");
    assert_eq!(of(&[], "sdb"), "sdb:1048576");
}

#[test]
fn a_second_path_to_a_unit_that_is_mounted_is_a_use_of_the_first() {
    let units: [(&str, &str); 6] = [
        ("sys/class/block/sda/device/wwid", "naa.5000\n"),
        ("sys/class/block/sdb/device/wwid", "naa.5000\n"),
        ("sys/class/block/sda1/size", "100\n"),
        ("sys/class/block/sda1/start", "8\n"),
        ("sys/block/sda/sda1/start", "8\n"),
        ("proc/self/mountinfo", "1 0 8:1 / /srv rw - ext4 /dev/sda1 rw\n"),
    ];
    let found = |size: &'static str| {
        let more = [&units[..], &[("sys/class/block/sdb/size", size)]].concat();
        let (_folder, map) = machine(&more);
        assert_eq!(uses(&map, "sdb"), [""; 0]);
        SharedData::of_device(&map, "sdb").uses()
    };
    let said = found("4096\n");
    assert!(said.iter().any(|use_| use_.ends_with("has data of sdb, and sda1 is mounted on /srv")), "{said:?}");
    assert_eq!(found("2048\n"), [""; 0], "another unit");
}
