//! What the tests work on, and how the program is run.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use whyslow_model::bench::{Report, SCHEMA};

pub(crate) const MIB: u64 = 1 << 20;

/// A folder on a disk, and a loop device on a file in it; all gone when dropped.
pub(crate) struct Stage {
    pub(crate) folder: tempfile::TempDir,
    undo: Vec<Box<dyn FnOnce()>>,
}

impl Stage {
    /// None, with the reason printed, without root. In continuous integration it must be there.
    pub(crate) fn new() -> Option<Self> {
        // SAFETY: geteuid takes nothing and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "safety must be tested, as root");
            eprintln!("skipped: loop devices need root");
            return None;
        }
        let folder = tempfile::Builder::new().prefix("wsl-bench-").tempdir_in("/var/tmp").unwrap();
        Some(Self { folder, undo: Vec::new() })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A loop device of so many bytes, each of them 0x5a.
    pub(crate) fn device(&mut self, name: &str, bytes: u64) -> String {
        fs::write(self.path(name), vec![0x5a; bytes as usize]).unwrap();
        let path = self.path(name).to_string_lossy().into_owned();
        self.attach(&[&path])
    }

    /// A loop device of so many bytes, none of which is there yet.
    pub(crate) fn sparse(&mut self, name: &str, bytes: u64) -> String {
        File::create(self.path(name)).and_then(|file| file.set_len(bytes)).unwrap();
        let path = self.path(name).to_string_lossy().into_owned();
        self.attach(&[&path])
    }

    pub(crate) fn attach(&mut self, args: &[&str]) -> String {
        let all = [&["--find", "--show", "--partscan"], args].concat();
        // Another program may take the device that was found free; then there is another.
        let out = (0..20).map(|_| losetup(&all)).find(|out| out.status.success());
        let node = String::from_utf8(out.expect("losetup(8)").stdout).unwrap().trim().to_owned();
        let gone = node.clone();
        self.undo(move || drop(losetup(&["--detach", &gone])));
        node
    }

    pub(crate) fn undo(&mut self, how: impl FnOnce() + 'static) {
        self.undo.push(Box::new(how));
    }

    /// ext4 on a device, mounted; where.
    pub(crate) fn mount(&mut self, device: &str) -> String {
        // What mkfs leaves undone the kernel does once it is mounted: 4 MiB of a device of 64, beside what is being measured.
        let whole = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        must(Command::new("mkfs.ext4").args(whole).arg(device));
        self.mount_made(device)
    }

    /// What is on a device already, mounted; where.
    pub(crate) fn mount_made(&mut self, device: &str) -> String {
        let point = self.path("mnt").to_string_lossy().into_owned();
        fs::create_dir_all(&point).unwrap();
        must(Command::new("mount").args([device, &point]));
        let gone = point.clone();
        self.undo(move || drop(Command::new("umount").arg(gone).status()));
        point
    }
}

/// Runs losetup(8), for one test at a time: a device is free for the next before the one that detached it has closed it, and then
/// it is in use by another than the test expects.
fn losetup(args: &[&str]) -> Output {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    Command::new("losetup").args(args).output().unwrap()
}

/// Whether a program is there; where it is not, that is printed.
pub(crate) fn has(program: &str) -> bool {
    let found = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: {program} is not installed: scripts/install-missing.sh lab");
    }
    found
}

impl Drop for Stage {
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

/// `whyslow bench` with these arguments.
pub(crate) fn whyslow(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    command.arg("bench").args(args).stdin(Stdio::null());
    command
}

pub(crate) fn bench(args: &[&str]) -> Command {
    let mut command = whyslow(&[&["disk"], args].concat());
    if !args.contains(&"--for") {
        command.args(["--for", "20ms"]);
    }
    command
}

/// The report of another benchmark than that of a disk.
pub(crate) fn report_of(args: &[&str]) -> Report {
    let out = whyslow(args).arg("--json").output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("a report")
}

pub(crate) fn run(args: &[&str]) -> Output {
    bench(args).output().unwrap()
}

pub(crate) fn report(args: &[&str]) -> Report {
    let out = run(&[args, &["--json"]].concat());
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    let report: Report = serde_json::from_slice(&out.stdout).expect("a report");
    assert_eq!(report.schema, SCHEMA);
    report
}

/// That it is refused, in one line that holds these words.
pub(crate) fn assert_refused(args: &[&str], words: &[&str]) {
    let out = run(args);
    let said = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(2), "{args:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{args:?}: {words:?} in {said}");
    assert!(out.stdout.is_empty());
}

/// For reading, and for writing with all that allows it.
pub(crate) fn assert_in_use(device: &str, serial: &str, words: &[&str]) {
    assert_refused(&[device], &[&["is in use"], words].concat());
    assert_refused(&[device, "--destroy", serial], &[&["is in use"], words].concat());
}

/// All bytes of a file or device.
pub(crate) fn content(path: impl AsRef<Path>) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::open(path).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}
