//! A disk that is full, read-only or does not respond: it is reported once, nothing is damaged, and recording continues when it
//! can. Needs root, to mount file systems.

mod common;
#[path = "../../../tests/skip/mod.rs"]
mod skip;

use common::{all, folder, made, plain};
use skip::is_root;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use whyslow_model::snapshot::Snapshot;
use whyslow_store::{Recorder, Retention};
use whyslow_testing::gets_at_end_of_test;

/// A mounted file system, unmounted when dropped.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

fn mount<'a>(at: &'a Path, args: &[&str]) -> Mounted<'a> {
    let mounted = Command::new("mount").args(args).arg(at).status().expect("mount(8)");
    assert!(mounted.success(), "mount {args:?}");
    Mounted(at)
}

struct Rig {
    recorder: Recorder,
    log: Arc<Mutex<Vec<String>>>,
    second: u64,
}

impl Rig {
    fn new(dir: &Path) -> Self {
        Self::within(dir, common::RETENTION)
    }

    fn within(dir: &Path, retention: Retention) -> Self {
        let log: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = log.clone();
        let write = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
        let interval = Duration::from_millis(10);
        Self { recorder: Recorder::begin(dir, interval, retention, write).unwrap(), log, second: 0 }
    }

    /// Records until this is logged.
    fn record_until(&mut self, logged: &str) {
        let began = Instant::now();
        while !self.logged(logged) {
            assert!(began.elapsed() < Duration::from_secs(60), "{logged} not among {:?}", self.log.lock().unwrap());
            self.record(1);
        }
    }

    fn record(&mut self, samples: u64) {
        for _ in 0..samples {
            self.second += 1;
            self.recorder.add(made(self.second), Instant::now());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn logged(&self, what: &str) -> bool {
        self.log.lock().unwrap().iter().any(|line| line.contains(what))
    }
}

/// Checks that the samples are as they were made, and in order; returns how many there are.
fn sound(dir: &Path) -> usize {
    let read: Vec<Snapshot> = all(dir).into_iter().map(plain).collect();
    assert!(read.is_sorted_by_key(|sample| sample.boot_ns));
    for sample in &read {
        let second = sample.boot_ns / common::SECOND - 1000;
        assert!(*sample == made(second), "sample {second}");
    }
    read.len()
}

#[test]
fn a_full_disk_is_reported_once_and_recording_continues_when_there_is_space() {
    if !is_root() {
        return;
    }
    let dir = folder();
    let _mounted = mount(dir.path(), &["-t", "tmpfs", "-o", "size=8m", "wsl-record-full"]);
    let recording = dir.path().join("recording");
    let mut rig = Rig::new(&recording);
    rig.record(20);

    let filler = dir.path().join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
    rig.record_until("nothing is recorded until there is more");
    rig.record(20);
    let mut lines = rig.log.lock().unwrap().clone();
    let logged = lines.len();
    lines.sort();
    lines.dedup();
    assert!(lines.len() == logged && logged <= 3, "logged again and again: {lines:?}");

    fs::remove_file(filler).unwrap();
    drop(file);
    rig.record_until("there is space again");
    let before = rig.second;
    rig.record(20);
    common::wait_until_written(&rig.recorder);
    let counts = rig.recorder.finish().unwrap();
    assert!(counts.missed >= 20);
    assert!(sound(&recording) >= 30);
    let last = all(&recording).last().unwrap().boot_ns / common::SECOND - 1000;
    assert!(last > before, "recorded up to {last}");
}

#[test]
fn a_short_recording_is_complete_though_little_is_free() {
    if !is_root() {
        return;
    }
    let dir = folder();
    let _mounted = mount(dir.path(), &["-t", "tmpfs", "-o", "size=256m", "wsl-record-nearly-full"]);
    // 2 MiB, less than 1 %, is left.
    File::create(dir.path().join("filler")).unwrap().write_all(&vec![0; 254 << 20]).unwrap();
    let recording = dir.path().join("recording");
    let mut rig = Rig::within(&recording, Retention { thin_when_full: false, ..common::RETENTION });
    rig.record(50);
    assert_eq!(rig.recorder.finish().unwrap().samples, 50);
    assert!(rig.log.lock().unwrap().is_empty(), "{:?}", rig.log.lock().unwrap());
    assert_eq!(sound(&recording), 50);
}

/// An ext4 file system in a file.
fn ext4(image: &Path) {
    File::create(image).unwrap().set_len(32 << 20).unwrap();
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-F"]).arg(image).env("PATH", PATH);
    assert!(mkfs.status().expect("mkfs.ext4 of e2fsprogs").success());
}

/// Administrators' programs are not on every PATH.
const PATH: &str = "/usr/sbin:/sbin:/usr/bin:/bin";

/// A file system on which all writes wait (fsfreeze(8)), until this is dropped or the test is killed: a shell then lets them go on.
/// The test itself could not end before, since it waits for its own writes.
struct Frozen(Child);

impl Frozen {
    fn new(at: &Path) -> Self {
        const FREEZE: &str = "trap 'fsfreeze --unfreeze \"$1\"; exit' TERM; fsfreeze --freeze \"$1\" || exit; echo frozen; \
                              while :; do sleep 0.1; done";
        let mut shell = Command::new("sh");
        shell.args(["-c", FREEZE, "sh"]).arg(at).env("PATH", PATH).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut shell = gets_at_end_of_test(&mut shell, libc::SIGTERM).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "frozen\n", "fsfreeze of util-linux");
        Self(shell)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        // SAFETY: kill(2) has no preconditions; the shell has not been waited for, so the PID is its own.
        unsafe { libc::kill(self.0.id().cast_signed(), libc::SIGTERM) };
        let thawed = self.0.wait();
        assert!(thawed.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

#[test]
fn a_disk_that_does_not_respond_holds_up_no_sample() {
    if !is_root() {
        return;
    }
    let (dir, images) = (folder(), folder());
    let image = images.path().join("ext4");
    ext4(&image);
    let _mounted = mount(dir.path(), &["-o", "loop", image.to_str().unwrap()]);
    let rig = Rig::new(dir.path());
    let add = |second| rig.recorder.add(made(second), Instant::now());
    (0..10).for_each(add);
    common::wait_until_written(&rig.recorder);
    let frozen = Frozen::new(dir.path());
    (10..120).for_each(add);
    assert_eq!(rig.recorder.waiting(), 60);
    drop(frozen);
    common::wait_until_written(&rig.recorder);
    add(120);
    rig.recorder.finish().unwrap();
    assert!(sound(dir.path()) >= 10 + 60);
    let read = all(dir.path());
    let last = read.last().unwrap();
    assert_eq!(last.boot_ns / common::SECOND - 1000, 120);
    let event = last.the::<whyslow_model::catalogue::Sample>().unwrap().event.get().unwrap_or_default();
    assert!(event.contains("the disk was too slow"), "{event}");
}

#[test]
fn a_file_system_that_turns_read_only_loses_nothing_written_before() {
    if !is_root() {
        return;
    }
    let (dir, image) = (folder(), folder());
    let image = image.path().join("ext4");
    ext4(&image);
    let image = image.to_str().unwrap();
    let before = {
        let _mounted = mount(dir.path(), &["-o", "loop,errors=remount-ro", image]);
        let mut rig = Rig::new(dir.path());
        rig.record(20);
        common::wait_until_written(&rig.recorder);
        let before = sound(dir.path());
        assert_eq!(before, 20);
        // What ext4 does after an error of the device (ext4(5), `abort`).
        let aborted = Command::new("mount").args(["-o", "remount,abort"]).arg(dir.path()).status().unwrap();
        assert!(aborted.success());
        rig.record_until("cannot record: ");
        rig.record(20);
        assert!(rig.recorder.finish().is_err());
        before
    };
    // As after a reboot. On a copy, because another mount namespace may still hold the original.
    let restarted = format!("{image}-restarted");
    fs::copy(image, &restarted).unwrap();
    let checked = Command::new("e2fsck").args(["-fy", &restarted]).env("PATH", PATH).output().unwrap();
    // 0: no errors; 1: errors corrected (e2fsck(8)).
    assert!(matches!(checked.status.code(), Some(0 | 1)), "{checked:?}");
    let _mounted = mount(dir.path(), &["-o", "loop", &restarted]);
    assert!(sound(dir.path()) >= before);
    common::recorder(dir.path()).finish().unwrap();
    assert!(sound(dir.path()) >= before);
    assert!(common::tails(dir.path()).is_empty());
}
