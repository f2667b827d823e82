//! `bench layers` on the file systems there are.

use crate::stage::{MIB, Stage, content, has, must, report_of};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use whyslow_model::bench::Report;

/// The layers of a file of 0x77s on a mounted file system of this kind.
fn peeled(device: &str, point: &str, kind: &str) -> Report {
    let file = Path::new(point).join("data");
    fs::write(&file, vec![0x77; 12 * MIB as usize]).unwrap();
    must(&mut Command::new("sync"));
    let report = report_of(&["layers", point, "--for", "20ms"]);
    let name = device.trim_start_matches("/dev/");
    let of_group = report.layers.chunk_by(|a, b| a.group == b.group).next().unwrap();
    let names: Vec<&str> = of_group.iter().map(|layer| &*layer.name).collect();
    let ways = ["direct", "cache cold", "cache warm"].map(|way| format!("{kind}, {way}"));
    assert!(names.ends_with(&[name, &ways[0], &ways[1], &ways[2]]), "{names:?}");
    assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.failed.is_none() && run.write.is_none()));
    assert_eq!(content(&file), vec![0x77; 12 * MIB as usize]);
    report
}

/// The first block that the device was asked for.
fn first_block(report: &Report, device: &str) -> Vec<u8> {
    let name = device.trim_start_matches("/dev/");
    let run = report.rounds.iter().flat_map(|round| &round.runs).find(|run| run.name == name).unwrap();
    let mut block = vec![0; 4096];
    File::open(device).unwrap().read_exact_at(&mut block, run.asked.start).unwrap();
    block
}

#[test]
fn layers_are_read_where_the_file_lies_and_nothing_is_written() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 32 * MIB);
    let point = stage.mount(&device);
    let report = peeled(&device, &point, "ext4");
    assert!(first_block(&report, &device).iter().all(|&byte| byte == 0x77), "the device was read elsewhere");
}

#[test]
fn the_layers_of_an_xfs_are_read_where_the_file_lies() {
    let Some(mut stage) = Stage::new() else { return };
    if !has("mkfs.xfs") {
        return;
    }
    let device = stage.sparse("a.img", 320 * MIB);
    must(Command::new("mkfs.xfs").args(["-q", &device]));
    let point = stage.mount_made(&device);
    let report = peeled(&device, &point, "xfs");
    assert!(first_block(&report, &device).iter().all(|&byte| byte == 0x77), "the device was read elsewhere");
}

/// btrfs has addresses of its own: where a file lies on its device cannot be told, and is not guessed.
#[test]
fn the_layers_of_a_btrfs_are_told_and_where_its_device_was_read_too() {
    let Some(mut stage) = Stage::new() else { return };
    if !has("mkfs.btrfs") {
        return;
    }
    let device = stage.sparse("a.img", 256 * MIB);
    must(Command::new("mkfs.btrfs").args(["-q", &device]));
    let point = stage.mount_made(&device);
    let report = peeled(&device, &point, "btrfs");
    let said = format!("{} is read from its beginning", device.trim_start_matches("/dev/"));
    assert!(report.caveats.iter().any(|caveat| caveat.starts_with(&said)), "{:?}", report.caveats);
}

#[test]
fn every_file_system_is_left_as_it_was() {
    for (kind, bytes) in [("xfs", 320 * MIB), ("btrfs", 256 * MIB)] {
        let Some(mut stage) = Stage::new() else { return };
        let make = format!("mkfs.{kind}");
        if !has(&make) {
            continue;
        }
        let device = stage.sparse("a.img", bytes);
        must(Command::new(&make).args(["-q", &device]));
        let point = stage.mount_made(&device);
        let report = report_of(&["fs", &point, "--size", "4M", "--files", "50", "--for", "50ms"]);
        assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.failed.is_none()), "{kind}");
        assert_eq!((report.files.len(), report.pairs.len()), (8, 3), "{kind}");
        assert_eq!(fs::read_dir(&point).unwrap().count(), 0, "{kind}");
        // What was asked for and what the device was given: nothing of it is lost on the way.
        let write = report.rounds.iter().find(|round| round.name == "write").unwrap();
        assert_eq!(write.ledgers[0].asked.write_bytes, 4 * MIB, "{kind}");
        let device = write.ledgers[0].layers.first().map(|layer| layer.traffic.write_bytes);
        assert!(device.is_some_and(|bytes| bytes >= 4 * MIB), "{kind}: {device:?}");
    }
}
