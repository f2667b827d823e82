//! Loop devices and folders to measure, and helpers that run the program on them.

use crate::skip::{is_root, skip};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use whyslow_documents::bench::{BenchReport, Round, SCHEMA};
use whyslow_testing::{ends_with_test, heeds_hangup};

pub(crate) const MIB: u64 = 1 << 20;

/// A folder on a disk, with the devices and mounts created in it; all are removed when dropped.
pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    undo: Vec<Box<dyn FnOnce()>>,
}

impl Fixture {
    /// Returns `None` without root.
    pub(crate) fn new() -> Option<Self> {
        is_root().then(|| Self { folder: whyslow_testing::folder_in("/var/tmp"), undo: Vec::new() })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn name(&self, name: &str) -> String {
        self.path(name).to_string_lossy().into_owned()
    }

    /// Creates a loop device on a file with this content.
    pub(crate) fn device_of(&mut self, name: &str, content: &[u8]) -> String {
        fs::write(self.path(name), content).unwrap();
        self.attach(&[&self.name(name)])
    }

    /// Creates a loop device of this many bytes 0x5a.
    pub(crate) fn device(&mut self, name: &str, bytes: u64) -> String {
        self.device_of(name, &vec![0x5a; bytes as usize])
    }

    /// Creates a loop device on a sparse file.
    pub(crate) fn sparse(&mut self, name: &str, bytes: u64) -> String {
        File::create(self.path(name)).and_then(|file| file.set_len(bytes)).unwrap();
        self.attach(&[&self.name(name)])
    }

    pub(crate) fn attach(&mut self, args: &[&str]) -> String {
        let all = [&["--find", "--show", "--partscan"], args].concat();
        // Another program may take the free device first.
        let out = (0..20).map(|_| losetup(&all)).find(|out| out.status.success());
        let node = String::from_utf8(out.expect("losetup(8)").stdout).unwrap().trim().to_owned();
        let gone = node.clone();
        self.undo(move || drop(losetup(&["--detach", &gone])));
        node
    }

    /// Creates a volume with this table and returns its UUID too; `None` without the device mapper.
    pub(crate) fn volume(&mut self, table: &str) -> Option<(String, String)> {
        if Command::new("dmsetup").arg("version").output().map_or(true, |out| !out.status.success()) {
            skip("no device mapper");
            return None;
        }
        let name = whyslow_testing::name("volume");
        must(Command::new("dmsetup").args(["create", &name, "--uuid", &name, "--table", table]));
        let gone = name.clone();
        self.undo(move || drop(Command::new("dmsetup").args(["remove", "--retry", &gone]).status()));
        let node = format!("/dev/mapper/{name}");
        if fs::metadata(&node).is_err() {
            skip("no node for a volume");
            return None;
        }
        Some((node, name))
    }

    pub(crate) fn undo(&mut self, how: impl FnOnce() + 'static) {
        self.undo.push(Box::new(how));
    }

    /// Creates and mounts an ext4 file system; returns the mount point.
    pub(crate) fn mount(&mut self, device: &str) -> String {
        // Lazy initialisation would write to the device while it is measured.
        let whole = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        must(Command::new("mkfs.ext4").args(whole).arg(device));
        self.mount_made(device)
    }

    /// Mounts the existing file system of a device.
    pub(crate) fn mount_made(&mut self, device: &str) -> String {
        let point = self.name("mnt");
        fs::create_dir_all(&point).unwrap();
        must(Command::new("mount").args([device, &point]));
        let gone = point.clone();
        self.undo(move || drop(Command::new("umount").arg(gone).status()));
        point
    }
}

/// Runs losetup(8), one at a time: a detached device is free for the next test before its last user has closed it.
fn losetup(args: &[&str]) -> Output {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    Command::new("losetup").args(args).output().unwrap()
}

impl Drop for Fixture {
    fn drop(&mut self) {
        while let Some(undo) = self.undo.pop() {
            undo();
        }
    }
}

pub(crate) fn must(command: &mut Command) {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: never");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn signal(child: &Child, signal: i32) {
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: kill has no preconditions; the child has not been waited for, so the PID is still its own.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// Returns `whyslow bench` with these arguments.
pub(crate) fn whyslow(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    ends_with_test(command.arg("bench").args(args).stdin(Stdio::null()));
    heeds_hangup(&mut command);
    command
}

pub(crate) fn bench(args: &[&str]) -> Command {
    let mut command = whyslow(&[&["disk"], args].concat());
    if !args.contains(&"--for") {
        command.args(["--for", "20ms"]);
    }
    command
}

/// Returns the report of any benchmark.
pub(crate) fn report_of(args: &[&str]) -> BenchReport {
    let out = whyslow(args).arg("--json").output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    let report: BenchReport = serde_json::from_slice(&out.stdout).expect("a report");
    assert_eq!(report.schema, SCHEMA);
    report
}

/// Returns the report of ever longer runs, until a condition holds: on a busy machine, a short run may not complete a
/// request.
pub(crate) fn report_when(args: &[&str], condition: impl Fn(&BenchReport) -> bool) -> BenchReport {
    let times = ["20ms", "200ms", "1s", "5s"];
    let mut reports = times.into_iter().map(|time| report_of(&[args, &["--for", time]].concat()));
    reports.find(condition).expect("the condition holds with 5 s")
}

/// Returns the report of ever longer runs, until every run has completed a request.
pub(crate) fn complete_report_of(args: &[&str]) -> BenchReport {
    report_when(args, |report| report.rounds.iter().all(has_completions))
}

pub(crate) fn has_completions(round: &Round) -> bool {
    round.runs.iter().all(|run| [&run.read, &run.write].into_iter().flatten().any(|flow| flow.operations > 0))
}

pub(crate) fn run(args: &[&str]) -> Output {
    bench(args).output().unwrap()
}

/// Returns the report of `bench disk`.
pub(crate) fn report(args: &[&str]) -> BenchReport {
    let time: &[&str] = if args.contains(&"--for") { &[] } else { &["--for", "20ms"] };
    report_of(&[&["disk"], args, time].concat())
}

/// Asserts that the run is refused with a one-line message that contains these words.
pub(crate) fn assert_refused(args: &[&str], words: &[&str]) {
    let out = run(args);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {words:?} in {said}");
    assert!(out.stdout.is_empty());
}

/// Asserts that the device is refused both for reading and for writing with the right serial number.
pub(crate) fn assert_in_use(device: &str, serial: &str, words: &[&str]) {
    assert_refused(&[device], &[&["is in use"], words].concat());
    assert_refused(&[device, "--destroy", serial], &[&["is in use"], words].concat());
}

pub(crate) fn content(path: impl AsRef<Path>) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}
