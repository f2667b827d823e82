//! A span of a recording that is read elsewhere.

mod common;

use common::{EVERY, SECOND, START, all, folder, made, plain, record};
use std::time::Duration;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;
use whyslow_store::{Extract, Recording, TimeRange, unpack};

/// From one second of the recording to another.
fn span(from: i64, to: i64) -> TimeRange {
    START + from * SECOND as i64..=START + (to + 1) * SECOND as i64 - 1
}

fn extract(recording: &Recording, span: &TimeRange) -> Vec<u8> {
    match recording.extract(span, 1 << 26).unwrap() {
        Extract::Bytes(bytes) => bytes,
        other => panic!("{other:?}"),
    }
}

fn windows(recording: &Recording, span: &TimeRange) -> Vec<Window> {
    let mut windows = Vec::new();
    let each = |window| {
        windows.push(window);
        true
    };
    recording.each_window(span, Duration::from_secs(3), &EVERY, each).unwrap();
    windows
}

#[test]
fn an_extract_is_read_as_the_recording_is() {
    let (from, to) = (folder(), folder());
    record(from.path(), 0..200);
    let recording = Recording::open(from.path()).unwrap();
    let span = span(150, 170);
    unpack(&extract(&recording, &span), to.path()).unwrap();
    let copy = Recording::open(to.path()).unwrap();
    let samples: Vec<Snapshot> = copy.snapshots(&span, &EVERY).unwrap().into_iter().map(plain).collect();
    assert_eq!(samples, (150..=170).map(made).collect::<Vec<_>>());
    let words = |recording: &Recording| format!("{:?}", windows(recording, &span));
    assert!(words(&copy) == words(&recording), "with what was read before and still held");
    assert_eq!(copy.inventory(span.start() - 1).unwrap(), recording.inventory(span.start() - 1).unwrap());
    assert_eq!(copy.changes(&span).unwrap(), recording.changes(&span).unwrap());
    assert!(all(to.path()).len() < 120, "{} samples of 200", all(to.path()).len());
}

#[test]
fn what_is_not_there_or_too_large_is_no_extract() {
    let dir = folder();
    record(dir.path(), 0..30);
    let recording = Recording::open(dir.path()).unwrap();
    assert_eq!(recording.extract(&span(40, 50), 1 << 26).unwrap(), Extract::Nothing);
    assert_eq!(recording.extract(&span(10, 20), 1000).unwrap(), Extract::TooLarge);
}

#[test]
fn an_extract_that_is_none_is_refused() {
    let dir = folder();
    record(dir.path(), 0..30);
    let recording = Recording::open(dir.path()).unwrap();
    let whole = extract(&recording, &span(0, 20));
    let refused = |bytes: &[u8]| {
        let folder = folder();
        unpack(bytes, folder.path()).unwrap_err().to_string()
    };
    for cut in [0, 10, 20, 30, 100, whole.len() / 2, whole.len() - 1] {
        refused(&whole[..cut]);
    }
    assert!(refused(b"PAR1").contains("unknown version"));
    let part = |tail: &[u8]| [&1_i64.to_le_bytes(), &(tail.len() as u64).to_le_bytes(), tail].concat();
    let of = |parts: &[Vec<u8>]| [&b"whyslow extract 1\n"[..], &parts.concat()].concat();
    assert!(refused(&of(&[part(b"not a tail")])).contains("not a recording"));
    assert!(refused(&of(&[[&1_i64.to_le_bytes()[..], &u64::MAX.to_le_bytes()].concat()])).contains("incomplete"));
    let twice = [&whole[..], &whole[18..]].concat();
    refused(&twice);
}
