//! Recordings of every released version can be read.
//!
//! `tests/recordings/NAME` holds a recording: closed segments and a running tail; `NAME.json` what was recorded, as the
//! program of that time had it. `cargo test -p whyslow-store --test versions -- --ignored` makes one of today's format.

mod common;

use common::{add, made, plain, recorder};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;
use whyslow_model::snapshot::Snapshot;

/// Samples of the closed part, and of the tail.
const CLOSED: std::ops::Range<u64> = 0..2;
const RUNNING: std::ops::Range<u64> = 2..4;

fn recordings() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings")
}

#[test]
fn recordings_of_every_version_read_as_they_were_recorded() {
    let mut count = 0;
    for entry in fs::read_dir(recordings()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let expected = fs::read(path.with_extension("json")).unwrap();
            let expected: Vec<Snapshot> = serde_json::from_slice(&expected).unwrap();
            let read: Vec<Snapshot> = common::all(&path).into_iter().map(plain).collect();
            assert!(read == expected, "{}", path.display());
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
#[ignore = "writes the recording that the other test reads"]
fn make_a_recording_of_this_version() {
    let path = recordings().join(concat!("v", env!("CARGO_PKG_VERSION_MAJOR"), "-", env!("CARGO_PKG_VERSION_MINOR")));
    let _ = fs::remove_dir_all(&path);
    common::record(&path, CLOSED);
    let mut recorder = recorder(&path);
    RUNNING.for_each(|second| add(&mut recorder, made(second), Instant::now()));
    common::wait_until_written(&recorder);
    let tail = common::tails(&path).remove(0);
    let kept = fs::read(&tail).unwrap();
    // What the recorder closes at its end is not wanted here.
    let aside = recordings().join("aside");
    let _ = fs::remove_dir_all(&aside);
    copy(&path, &aside);
    recorder.finish().unwrap();
    fs::remove_dir_all(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    fs::remove_file(path.join("lock")).unwrap();
    assert_eq!(fs::read(&tail).unwrap(), kept);
    let samples: Vec<Snapshot> = CLOSED.chain(RUNNING).map(made).collect();
    fs::write(path.with_extension("json"), serde_json::to_vec(&samples).unwrap()).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
