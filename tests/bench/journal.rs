//! Tests of `bench fs --log-device`: devices that it refuses, and what it leaves behind.

use crate::fixture::{Fixture, MIB, content, must, whyslow};
use crate::skip::{has_program, skip};
use std::fs;
use std::process::{Command, Output};
use whyslow_documents::bench::{BenchKind, BenchReport};

/// A data and a log device, each with a serial number.
struct Devices {
    fixture: Fixture,
    data: String,
    log: String,
}

impl Devices {
    fn new() -> Option<Self> {
        let mut fixture = Fixture::new()?;
        let (data, log) = (fixture.sparse("data.img", 640 * MIB), fixture.sparse("log.img", 64 * MIB));
        Some(Self { fixture, data, log })
    }

    /// Compares journal layouts with both devices confirmed.
    fn compare(&self, more: &[&str]) -> Output {
        let serials = ["data.img", "log.img"].map(|name| self.fixture.name(name));
        let confirmed =
            ["fs", &*self.data, "--log-device", &*self.log, "--destroy", &*serials[0], "--destroy", &*serials[1]];
        let mut compare = whyslow(&[&confirmed[..], more].concat());
        compare.env("TMPDIR", self.fixture.folder.path()).output().unwrap()
    }
}

fn assert_refused(args: &[&str], words: &[&str]) {
    let out = whyslow(&[&["fs"], args].concat()).output().unwrap();
    refused(&out, words);
}

fn refused(out: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{words:?} in {said}");
    assert!(out.stdout.is_empty());
}

fn layouts_are_compared(kind: &str) {
    let Some(devices) = Devices::new() else { return };
    if !has_program(&format!("mkfs.{kind}")) {
        return;
    }
    if !fs::read_to_string("/proc/filesystems").unwrap().contains(kind) {
        return skip(&format!("this kernel has no {kind}"));
    }
    let out = devices.compare(&["--type", kind, "--size", "1M", "--files", "20", "--json"]);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let report: BenchReport = serde_json::from_slice(&out.stdout).expect("a report");
    let paths: Vec<&str> = report.targets.iter().map(|target| &*target.path).collect();
    assert_eq!((report.kind, paths), (BenchKind::Fs, vec![&*devices.data, &*devices.log]));
    let [study] = &report.studies[..] else { panic!("{:?}", report.studies) };
    assert_eq!((&*study.name, study.target), (&*format!("journal layout of {kind}"), Some(0)));
    let unders: Vec<&str> = study.figures.iter().map(|figure| &*figure.under).collect();
    assert_eq!(unders, ["internal log", "external log"].repeat(3));
    assert!(
        study.figures.iter().all(|figure| figure.samples.len() == 6 && figure.samples.iter().all(|&rate| rate > 0.0))
    );
    let [verdict] = &study.findings[..] else { panic!("{:?}", study.findings) };
    assert!(verdict.contains("large streams (") && verdict.contains("times as fast, "), "{verdict}");
    // Nothing is mounted or left behind.
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&devices.data), "still mounted");
    let mut left: Vec<_> =
        fs::read_dir(devices.fixture.folder.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    left.sort();
    assert_eq!(left, ["data.img", "log.img"]);
    must(Command::new("blockdev").args(["--rereadpt", &devices.data]));
}

#[test]
fn journal_layouts_of_an_xfs_are_compared() {
    layouts_are_compared("xfs");
}

#[test]
fn journal_layouts_of_an_ext4_are_compared() {
    layouts_are_compared("ext4");
}

#[test]
fn a_log_device_is_written_only_if_both_serials_were_typed() {
    let Some(devices) = Devices::new() else { return };
    let Devices { fixture, data, log } = &devices;
    let [data_serial, log_serial] = ["data.img", "log.img"].map(|name| fixture.name(name));
    let none = vec![0; 64 * MIB as usize];
    assert_refused(&[data, "--log-device", log], &["--destroy"]);
    assert_refused(
        &[data, "--log-device", log, "--destroy", &log_serial],
        &[data, "would be overwritten", "--destroy"],
    );
    assert_refused(
        &[data, "--log-device", log, "--destroy", &data_serial],
        &[log, "would be overwritten", "--destroy"],
    );
    let both = ["--destroy", &*data_serial, "--destroy", log];
    assert_refused(&[&[&**data, "--log-device", log], &both[..]].concat(), &[log, "would be overwritten"]);
    assert!(content(log) == none && content(data).iter().all(|&byte| byte == 0), "a refused device was written");
    assert_refused(&[data, "--destroy", &data_serial], &["--log-device"]);
}

#[test]
fn a_log_device_that_is_in_use_or_mounted_is_refused() {
    let Some(mut devices) = Devices::new() else { return };
    let open = fs::File::open(&devices.log).unwrap();
    refused(&devices.compare(&[]), &[&devices.log, "is in use", "has it open"]);
    drop(open);
    let log = devices.log.clone();
    let point = devices.fixture.mount(&log);
    refused(&devices.compare(&[]), &[&log, "is in use", "mounted on", &point]);
}

#[test]
fn a_log_device_that_is_the_data_device_is_refused() {
    let Some(mut devices) = Devices::new() else { return };
    let (data, serial) = (devices.data.clone(), devices.fixture.name("data.img"));
    let twin = devices.fixture.attach(&[&serial]);
    for log in [&data, &twin] {
        assert_refused(&[&data, "--log-device", log, "--destroy", &serial], &["has the same data as", &data]);
    }
    must(Command::new("addpart").args([&data, "1", "2048", "262144"]));
    let gone = data.clone();
    devices.fixture.undo(move || drop(Command::new("delpart").args([&*gone, "1"]).status()));
    let part = format!("{data}p1");
    assert_refused(&[&data, "--log-device", &part, "--destroy", &serial], &["or a part of it", &data]);
    assert_refused(&[&part, "--log-device", &data, "--destroy", &serial], &["or a part of it", &data]);
}

#[test]
fn devices_that_cannot_take_a_file_system_and_its_log_are_refused() {
    let Some(mut devices) = Devices::new() else { return };
    let small = devices.fixture.sparse("small.img", 32 * MIB);
    let [data_serial, small_serial] = ["data.img", "small.img"].map(|name| devices.fixture.name(name));
    let both = ["--destroy", &*data_serial, "--destroy", &*small_serial];
    let args = |data, log| [&[data, "--log-device", log, "--size", "1M"], &both[..]].concat();
    assert_refused(&args(&devices.data, &small), &[&small, "has 32 MiB, but the log needs 64 MiB"]);
    assert_refused(&args(&small, &devices.data), &[&small, "has 32 MiB, but the file system needs 512 MiB"]);
    let folder = devices.fixture.name("");
    assert_refused(&args(&folder, &devices.data), &[&folder, "is not a block device"]);
    assert_refused(&args(&devices.data, &data_serial), &[&data_serial, "is not a block device"]);
    refused(&devices.compare(&["--only", "files"]), &["cannot be used with"]);
    assert_refused(&[&folder, "--type", "xfs"], &["--log-device"]);
}
