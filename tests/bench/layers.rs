//! Tests of `bench layers` and `bench fs` on several file systems.

use crate::fixture::{Fixture, MIB, complete_report_of, content, must, report_when};
use crate::skip::has_program;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use whyslow_documents::bench::BenchReport;

/// Measures the layers below a file of 0x77 bytes.
fn measured_layers(device: &str, point: &str, kind: &str) -> BenchReport {
    let file = Path::new(point).join("data");
    fs::write(&file, vec![0x77; 12 * MIB as usize]).unwrap();
    must(&mut Command::new("sync"));
    let report = complete_report_of(&["layers", point]);
    let name = device.trim_start_matches("/dev/");
    let of_group = report.layers.chunk_by(|a, b| a.group == b.group).next().unwrap();
    let names: Vec<&str> = of_group.iter().map(|layer| &*layer.name).collect();
    let ways = ["direct", "cache cold", "cache warm"].map(|way| format!("{kind}, {way}"));
    assert!(names.ends_with(&[name, &ways[0], &ways[1], &ways[2]]), "{names:?}");
    assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.failed.is_none() && run.write.is_none()));
    assert_eq!(content(&file), vec![0x77; 12 * MIB as usize]);
    report
}

/// Reads the first block that the benchmark requested from the device.
fn first_block(report: &BenchReport, device: &str) -> Vec<u8> {
    let name = device.trim_start_matches("/dev/");
    let run = report.rounds.iter().flat_map(|round| &round.runs).find(|run| run.name == name).unwrap();
    let mut block = vec![0; 4096];
    File::open(device).unwrap().read_exact_at(&mut block, run.asked.start).unwrap();
    block
}

#[test]
fn each_layer_is_read_at_the_offset_of_the_file_and_nothing_is_written() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 32 * MIB);
    let point = fixture.mount(&device);
    let report = measured_layers(&device, &point, "ext4");
    assert!(first_block(&report, &device).iter().all(|&byte| byte == 0x77), "the device was read elsewhere");
}

#[test]
fn the_layers_of_an_xfs_are_read_at_the_offset_of_the_file() {
    let Some(mut fixture) = Fixture::new() else { return };
    if !has_program("mkfs.xfs") {
        return;
    }
    let device = fixture.sparse("a.img", 320 * MIB);
    must(Command::new("mkfs.xfs").args(["-q", &device]));
    let point = fixture.mount_made(&device);
    let report = measured_layers(&device, &point, "xfs");
    assert!(first_block(&report, &device).iter().all(|&byte| byte == 0x77), "the device was read elsewhere");
}

/// btrfs has its own address space, so the offset on its device is unknown.
#[test]
fn the_device_of_a_btrfs_is_read_from_its_beginning_and_the_report_says_so() {
    let Some(mut fixture) = Fixture::new() else { return };
    if !has_program("mkfs.btrfs") {
        return;
    }
    let device = fixture.sparse("a.img", 256 * MIB);
    must(Command::new("mkfs.btrfs").args(["-q", &device]));
    let point = fixture.mount_made(&device);
    let report = measured_layers(&device, &point, "btrfs");
    let said = format!("{} is read from its beginning", device.trim_start_matches("/dev/"));
    assert!(report.caveats.iter().any(|caveat| caveat.starts_with(&said)), "{:?}", report.caveats);
}

#[test]
fn every_file_system_is_left_as_it_was() {
    for (kind, bytes) in [("xfs", 320 * MIB), ("btrfs", 256 * MIB)] {
        let Some(mut fixture) = Fixture::new() else { return };
        let make = format!("mkfs.{kind}");
        if !has_program(&make) {
            continue;
        }
        let device = fixture.sparse("a.img", bytes);
        must(Command::new(&make).args(["-q", &device]));
        let point = fixture.mount_made(&device);
        let report = report_when(&["fs", &point, "--size", "4M", "--files", "50"], |report| report.pairs.len() == 3);
        assert!(report.rounds.iter().flat_map(|round| &round.runs).all(|run| run.failed.is_none()), "{kind}");
        assert_eq!((report.files.len(), report.pairs.len()), (8, 3), "{kind}");
        assert_eq!(fs::read_dir(&point).unwrap().count(), 0, "{kind}");
        let write = report.rounds.iter().find(|round| round.name == "write").unwrap();
        assert_eq!(write.ledgers[0].asked.write_bytes, 4 * MIB, "{kind}");
        let device = write.ledgers[0].layers.first().map(|layer| layer.traffic.write_bytes);
        assert!(device.is_some_and(|bytes| bytes >= 4 * MIB), "{kind}: {device:?}");
    }
}
