//! Tests that a device in use is refused, regardless of its user and its name.

use crate::fixture::{Fixture, MIB, assert_in_use, assert_refused, must, report};
use crate::skip::has_program;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::process::{Child, Command, Stdio};

#[test]
fn a_mounted_device_is_refused_by_any_of_its_names() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 16 * MIB);
    let point = fixture.mount(&device);
    let serial = fixture.name("a.img");
    let link = fixture.path("by-id");
    symlink(&device, &link).unwrap();
    let node = fixture.path("another-node");
    let number = fs::read_to_string(format!("/sys/block/{}/dev", device.trim_start_matches("/dev/"))).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    must(Command::new("mknod").arg(&node).args(["b", major, minor]));
    for name in [&*device, &link.to_string_lossy(), &node.to_string_lossy()] {
        assert_in_use(name, &serial, &["mounted on", &point]);
    }
}

#[test]
fn a_disk_with_a_mounted_partition_is_refused() {
    let Some(mut fixture) = Fixture::new() else { return };
    let disk = fixture.device("a.img", 32 * MIB);
    let serial = fixture.name("a.img");
    must(Command::new("addpart").args([&disk, "1", "2048", "32768"]));
    must(Command::new("addpart").args([&disk, "2", "40960", "16384"]));
    let gone = disk.clone();
    fixture.undo(move || {
        for number in ["1", "2"] {
            drop(Command::new("delpart").args([&gone, number]).status());
        }
    });
    let part = format!("{disk}p1");
    fixture.mount(&part);
    assert_in_use(&disk, &serial, &["p1 is mounted on"]);
    assert_in_use(&part, &serial, &["p1 is mounted on"]);
    let other = report(&[&format!("{disk}p2")]);
    assert_eq!((&*other.targets[0].kind, other.targets[0].bytes), ("partition", 8 * MIB));
}

#[test]
fn swap_is_refused() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 16 * MIB);
    let serial = fixture.name("a.img");
    must(Command::new("mkswap").arg(&device));
    must(Command::new("swapon").args(["--priority", "0", &device]));
    let gone = device.clone();
    fixture.undo(move || drop(Command::new("swapoff").arg(gone).status()));
    assert_in_use(&device, &serial, &["is swap"]);
}

#[test]
fn a_device_that_a_loop_device_stands_on_is_refused() {
    let Some(mut fixture) = Fixture::new() else { return };
    let lower = fixture.device("a.img", 16 * MIB);
    let serial = fixture.name("a.img");
    let upper = fixture.attach(&[&lower]);
    let words = format!("{} is stacked on", upper.trim_start_matches("/dev/"));
    assert_in_use(&lower, &serial, &[&words]);
}

#[test]
fn a_device_that_a_process_has_open_is_refused() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 16 * MIB);
    let serial = fixture.name("a.img");
    for flags in [0, libc::O_EXCL] {
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&device).unwrap();
        let who = format!("process {}", std::process::id());
        assert_in_use(&device, &serial, &[&who]);
        drop(file);
    }
}

#[test]
fn what_is_in_use_may_be_read_where_that_is_asked_for() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 16 * MIB);
    fixture.mount(&device);
    let report = report(&[&device, "--in-use"]);
    assert!(report.caveats.iter().any(|caveat| caveat.contains("in use")), "{:?}", report.caveats);
    assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.write.is_none()));
    let serial = fixture.name("a.img");
    assert_refused(&[&device, "--in-use", "--destroy", &serial], &["cannot be used with"]);
}

#[test]
fn a_device_mounted_in_another_namespace_is_refused() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 16 * MIB);
    let serial = fixture.name("a.img");
    must(Command::new("mkfs.ext4").args(["-q", "-F", &device]));
    let elsewhere = MountedElsewhere::new(&device);
    assert_in_use(&device, &serial, &["claimed"]);
    drop(elsewhere);
    assert!(!report(&[&device]).rounds.is_empty(), "it can be read again");
}

/// A mount in another mount namespace: no list that is visible here contains it, and it disappears with the namespace.
struct MountedElsewhere(Child);

impl MountedElsewhere {
    fn new(device: &str) -> Self {
        let script = format!("mount {device} /mnt && echo mounted && read -r end");
        let mut other = Command::new("unshare");
        other.args(["--mount", "sh", "-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut other = Self(whyslow_testing::ends_with_test(&mut other).spawn().unwrap());
        let mut said = String::new();
        BufReader::new(other.0.stdout.take().unwrap()).read_line(&mut said).unwrap();
        assert_eq!(said, "mounted\n");
        other
    }
}

impl Drop for MountedElsewhere {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        drop(self.0.wait());
    }
}

/// Creates two loop devices on one file, the first with a file system.
fn twins(fixture: &mut Fixture) -> (String, String, String) {
    let first = fixture.device("a.img", 16 * MIB);
    must(Command::new("mkfs.ext4").args(["-q", "-F", &first]));
    let serial = fixture.name("a.img");
    let second = fixture.attach(&[&serial]);
    (first, second, serial)
}

#[test]
fn a_device_whose_file_is_mounted_in_another_namespace_by_a_second_loop_device_is_not_destroyed() {
    let Some(mut fixture) = Fixture::new() else { return };
    let (first, second, serial) = twins(&mut fixture);
    let upper = fixture.attach(&[&second]);
    let elsewhere = MountedElsewhere::new(&first);
    let before = fs::read(&serial).unwrap();
    let words = ["is in use", "has data of", "another namespace", first.trim_start_matches("/dev/")];
    assert_refused(&[&upper, "--destroy", &second], &words);
    assert!(before == fs::read(&serial).unwrap(), "it was written to");
    drop(elsewhere);
    assert!(!report(&[&upper, "--destroy", &second]).rounds.is_empty());
}

#[test]
fn a_device_below_a_loop_device_that_is_mounted_in_another_namespace_is_not_destroyed_through_it() {
    let Some(mut fixture) = Fixture::new() else { return };
    let lower = fixture.device("a.img", 16 * MIB);
    must(Command::new("mkfs.ext4").args(["-q", "-F", &lower]));
    let upper = fixture.attach(&["--offset", "1048576", &lower]);
    let elsewhere = MountedElsewhere::new(&lower);
    let words = ["is in use", "has data of", "claimed", lower.trim_start_matches("/dev/")];
    assert_refused(&[&upper, "--destroy", &lower], &words);
    drop(elsewhere);
}

#[test]
fn a_device_whose_file_a_lazily_unmounted_second_loop_device_still_uses_is_not_destroyed() {
    let Some(mut fixture) = Fixture::new() else { return };
    let (first, second, serial) = twins(&mut fixture);
    let point = fixture.mount_made(&first);
    let mut user = Command::new("sleep");
    let mut user = whyslow_testing::ends_with_test(user.arg("600").current_dir(&point)).spawn().unwrap();
    must(Command::new("umount").args(["--lazy", &point]));
    let refused = std::panic::catch_unwind(|| {
        assert_refused(&[&second, "--destroy", &serial], &["is in use", "has data of", "unmounted lazily"]);
    });
    user.kill().unwrap();
    user.wait().unwrap();
    refused.unwrap();
}

#[test]
fn a_device_whose_deleted_file_is_mounted_by_a_second_loop_device_is_not_destroyed() {
    let Some(mut fixture) = Fixture::new() else { return };
    let (first, second, serial) = twins(&mut fixture);
    let point = fixture.mount_made(&first);
    fs::remove_file(&serial).unwrap();
    let typed = format!("{serial} (deleted)");
    assert_refused(&[&second, "--destroy", &typed], &["is in use", "has data of", "is mounted on", &point]);
}

/// Mounts an overlay over two folders of a fixture, `upper` and `lower`; returns its mount point.
fn overlay(fixture: &mut Fixture) -> String {
    for folder in ["lower", "upper", "work", "merged"] {
        fs::create_dir_all(fixture.path(folder)).unwrap();
    }
    let [lower, upper, work, merged] = ["lower", "upper", "work", "merged"].map(|name| fixture.name(name));
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    must(Command::new("mount").args(["-t", "overlay", "-o", &options, "overlay", &merged]));
    let gone = merged.clone();
    fixture.undo(move || drop(Command::new("umount").arg(gone).status()));
    merged
}

#[test]
fn a_device_on_an_overlay_whose_layer_has_the_mounted_file_is_not_destroyed() {
    for layer in ["upper", "lower"] {
        let Some(mut fixture) = Fixture::new() else { return };
        fs::create_dir_all(fixture.path(&format!("{layer}/d"))).unwrap();
        let file = format!("{layer}/d/a.img");
        let mounted = fixture.device(&file, 16 * MIB);
        let point = fixture.mount(&mounted);
        let merged = overlay(&mut fixture);
        let serial = format!("{merged}/d/a.img");
        // A file in the lower layer is only read: a writable loop device triggers a copy first.
        let second = fixture.attach(&["--read-only", &serial]);
        let before = fs::read(fixture.path(&file)).unwrap();
        let writable = layer == "upper";
        let second = if writable { fixture.attach(&[&serial]) } else { second };
        let words: &[&str] = if writable { &["is in use", "has data of", &point] } else { &["is read-only"] };
        assert_refused(&[&second, "--destroy", &serial], words);
        assert!(before == fs::read(fixture.path(&file)).unwrap(), "it was written to");
        // The other way around: the overlay's device is mounted, and the device on the layer is to be overwritten.
        if writable {
            must(Command::new("umount").arg(&point));
            let merged_point = fixture.mount_made(&second);
            let layer = fixture.name(&file);
            assert_refused(&[&mounted, "--destroy", &layer], &["is in use", "has data of", &merged_point]);
        }
    }
}

#[test]
fn a_volume_on_the_same_range_of_a_device_is_a_use_and_one_beside_it_is_not() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 32 * MIB);
    let Some(first) = fixture.volume(&format!("0 32768 linear {device} 0")) else { return };
    let Some(same) = fixture.volume(&format!("0 16384 linear {device} 8192")) else { return };
    let Some(beside) = fixture.volume(&format!("0 32768 linear {device} 32768")) else { return };
    let Some(striped) = fixture.volume(&format!("0 8192 striped 2 16 {device} 28672 {device} 49152")) else { return };
    let point = fixture.mount(&first.0);
    for (volume, uuid) in [&same, &striped] {
        assert_refused(&[volume, "--destroy", uuid], &["is in use", "has data of", &point]);
    }
    assert!(!report(&[&beside.0, "--destroy", &beside.1]).rounds.is_empty());
}

#[test]
fn the_external_journal_of_a_file_system_is_refused() {
    let Some(mut fixture) = Fixture::new() else { return };
    let journal = fixture.device("journal.img", 16 * MIB);
    let data = fixture.device("data.img", 16 * MIB);
    let serial = fixture.name("journal.img");
    must(Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096", "-O", "journal_dev", &journal]));
    must(Command::new("mkfs.ext4").args(["-q", "-F", "-b", "4096", "-J", &format!("device={journal}"), &data]));
    fixture.mount_made(&data);
    assert_in_use(&journal, &serial, &["claimed"]);
}

#[test]
fn every_device_of_a_btrfs_is_refused() {
    let Some(mut fixture) = Fixture::new() else { return };
    if !has_program("mkfs.btrfs") {
        return;
    }
    let names = ["a.img", "b.img"];
    let devices = names.map(|name| fixture.sparse(name, 256 * MIB));
    must(Command::new("mkfs.btrfs").args(["-q", "-f", &devices[0], &devices[1]]));
    // The kernel learns of the second device only through the mount options.
    let options = format!("device={},device={}", devices[0], devices[1]);
    let point = fixture.name("mnt");
    fs::create_dir_all(&point).unwrap();
    must(Command::new("mount").args(["-t", "btrfs", "-o", &options, &devices[0], &point]));
    fixture.undo(move || drop(Command::new("umount").arg(point).status()));
    for (name, device) in names.iter().zip(&devices) {
        let serial = fixture.name(name);
        assert_in_use(device, &serial, &["btrfs"]);
    }
}

#[test]
fn a_second_loop_device_on_the_file_of_a_mounted_one_is_not_destroyed() {
    let Some(mut fixture) = Fixture::new() else { return };
    let mounted = fixture.device("a.img", 16 * MIB);
    let serial = fixture.name("a.img");
    let second = fixture.attach(&[&serial]);
    // The same file under another name, and a part of it.
    fs::hard_link(&serial, fixture.path("b.img")).unwrap();
    let linked = fixture.name("b.img");
    let third = fixture.attach(&["--offset", "1048576", &linked]);
    let point = fixture.mount(&mounted);
    let before = fs::read(&serial).unwrap();
    for (device, serial) in [(&second, &serial), (&third, &linked)] {
        let words = ["is in use", "has data of", "is mounted on", &point];
        assert_refused(&[device, "--destroy", serial], &words);
    }
    assert!(before == fs::read(&serial).unwrap(), "it was written to");
}

#[test]
fn parts_of_one_file_that_do_not_overlap_are_not_the_same() {
    let Some(mut fixture) = Fixture::new() else { return };
    fs::write(fixture.path("a.img"), vec![0x5a; 32 * MIB as usize]).unwrap();
    let serial = fixture.name("a.img");
    let half = (16 * MIB).to_string();
    let first = fixture.attach(&["--sizelimit", &half, &serial]);
    let second = fixture.attach(&["--offset", &half, &serial]);
    fixture.mount(&first);
    assert!(!report(&[&second, "--destroy", &serial]).rounds.is_empty());
}

#[test]
fn a_device_whose_file_a_process_has_open_or_swaps_to_is_not_destroyed() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 16 * MIB);
    let serial = fixture.name("a.img");
    let file = OpenOptions::new().read(true).open(&serial).unwrap();
    let who = format!("process {}", std::process::id());
    assert_refused(&[&device, "--destroy", &serial], &["is in use", &who, "the file behind it"]);
    drop(file);
    assert!(!report(&[&device, "--destroy", &serial]).rounds.is_empty());
}

#[test]
fn a_volume_on_a_second_loop_device_of_a_mounted_file_is_not_destroyed() {
    let Some(mut fixture) = Fixture::new() else { return };
    let mounted = fixture.device("a.img", 16 * MIB);
    let serial = fixture.name("a.img");
    let second = fixture.attach(&[&serial]);
    let Some((volume, name)) = fixture.volume(&format!("0 32768 linear {second} 0")) else { return };
    let point = fixture.mount(&mounted);
    assert_refused(&[&volume, "--destroy", &name], &["is in use", "has data of", &point]);
}
