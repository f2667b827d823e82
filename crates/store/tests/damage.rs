//! A truncated or damaged recording opens, and loses only what the damage hit.

mod common;

use common::{add, all, folder, made, plain, recorder, tails};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use whyslow_model::snapshot::Snapshot;
use whyslow_store::Recording;

const SAMPLES: u64 = 30;

/// A tail as left by a killed recorder.
fn tail() -> (String, Vec<u8>) {
    let dir = folder();
    let mut recorder = recorder(dir.path());
    for second in 0..SAMPLES {
        add(&mut recorder, made(second), Instant::now());
    }
    common::wait_until_written(&recorder);
    let tail = tails(dir.path()).remove(0);
    (tail.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(tail).unwrap())
}

/// Where each chunk of a tail ends; the first is the header.
fn chunk_ends(tail: &[u8]) -> Vec<usize> {
    let mut at = b"whyslow tail 1\n".len();
    let mut ends = Vec::new();
    // Up to the first parity block.
    while at < tail.len() && !tail[at..].starts_with(b"WS") {
        at += 8 + u32::from_le_bytes(tail[at..at + 4].try_into().unwrap()) as usize;
        ends.push(at);
    }
    ends
}

fn read(dir: &Path) -> Vec<Snapshot> {
    if Recording::open(dir).is_err() { Vec::new() } else { all(dir).into_iter().map(plain).collect() }
}

#[test]
fn a_truncated_tail_has_all_complete_samples() {
    let (name, tail) = tail();
    let ends = chunk_ends(&tail);
    assert_eq!((ends.len() as u64, ends.last()), (1 + SAMPLES, Some(&tail.len())));
    let samples: Vec<Snapshot> = (0..SAMPLES).map(made).collect();
    let dir = folder();
    // The unit tests of `tail` truncate at every byte.
    for cut in (0..tail.len()).step_by(tail.len() / 20).chain(ends.iter().rev().take(2).map(|end| end - 1)) {
        fs::write(dir.path().join(&name), &tail[..cut]).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count().saturating_sub(1);
        let read = read(dir.path());
        assert_eq!(read.len(), whole, "cut at {cut}");
        assert!(read == samples[..whole], "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_loses_nothing() {
    let (name, tail) = tail();
    let ends = chunk_ends(&tail);
    let samples: Vec<Snapshot> = (0..SAMPLES).map(made).collect();
    let dir = folder();
    for at in (ends[0]..tail.len()).step_by(tail.len() / 30) {
        let mut damaged = tail.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(dir.path().join(&name), damaged).unwrap();
        assert!(read(dir.path()) == samples, "flipped at {at}");
    }
}

#[test]
fn damage_beyond_repair_is_reported_and_earlier_samples_are_kept() {
    let (name, mut tail) = tail();
    // The last group has no parity yet.
    let ends = chunk_ends(&tail);
    tail[ends[10] + 8..ends[11]].fill(0);
    let dir = folder();
    fs::write(dir.path().join(&name), &tail).unwrap();
    let samples: Vec<Snapshot> = (0..SAMPLES).map(made).collect();
    let (kept, logged) = read_with_log(dir.path());
    assert!(kept == samples[..10]);
    assert!(logged.len() == 1 && logged[0].contains("20 samples are damaged beyond repair"), "{logged:?}");

    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = lines.clone();
    let log = Arc::new(move |line: &str| log.lock().unwrap().push(line.to_owned()));
    let recorder = whyslow_store::Recorder::begin(dir.path(), Duration::from_secs(1), common::RETENTION, log);
    let counts = recorder.unwrap().finish().unwrap();
    assert_eq!((counts.samples, counts.lost), (0, 20));
    let logged = lines.lock().unwrap().clone();
    assert!(logged.len() == 1 && logged[0].contains("20 samples recorded before were damaged on disk"), "{logged:?}");
    assert!(read(dir.path()) == samples[..10]);
}

/// A sample with few families, so that minutes of them fit into a tail.
fn small(second: u64) -> Snapshot {
    let made = made(second);
    let mut small = Snapshot { wall_ns: made.wall_ns, boot_ns: made.boot_ns, ..Snapshot::default() };
    small.processor.cpu = made.processor.cpu.clone();
    small.block.disk = made.block.disk.clone();
    small.memory.meminfo = made.memory.meminfo.clone();
    small
}

/// The seconds of small samples that read back as they were made.
fn seconds_of(samples: &[Snapshot]) -> Vec<u64> {
    let second = |sample: &Snapshot| {
        let second = (sample.wall_ns - common::START) as u64 / common::SECOND;
        assert!(*sample == small(second), "the sample of second {second} is another");
        second
    };
    samples.iter().map(second).collect()
}

#[test]
fn damage_that_parity_cannot_undo_costs_the_samples_up_to_the_next_state() {
    const LONG: u64 = 300;
    let dir = folder();
    let mut recorder = recorder(dir.path());
    (0..LONG).for_each(|second| add(&mut recorder, small(second), Instant::now()));
    common::wait_until_written(&recorder);
    assert_eq!(tails(dir.path()).len(), 1);
    let tail = tails(dir.path()).remove(0);
    let whole = fs::read(&tail).unwrap();
    std::mem::forget(recorder);
    let dir = folder();
    let path = dir.path().join(tail.file_name().unwrap());
    let frames = chunk_ends(&whole)[0]..whole.len();
    let mut beyond_repair = 0;
    for start in 1..7 {
        let mut damaged = whole.clone();
        let at = |tenths: usize| frames.start + frames.len() * tenths / 10;
        damaged[at(start)..at(start + 2)].fill(0);
        fs::write(&path, damaged).unwrap();
        let (read, logged) = read_with_log(dir.path());
        let seconds = seconds_of(&read);
        let lost: Vec<u64> = (0..LONG).filter(|second| !seconds.contains(second)).collect();
        assert!(lost.len() <= 160, "damaged from {start} tenths: {} samples are lost", lost.len());
        assert!(lost.windows(2).all(|pair| pair[0] + 1 == pair[1]), "damaged from {start} tenths: {lost:?}");
        let recording = Recording::open(dir.path()).unwrap();
        match recording.losses() {
            [] => assert!(lost.is_empty() && logged.is_empty(), "{lost:?} {logged:?}"),
            [loss] => {
                beyond_repair += 1;
                assert!(logged.len() == 1 && logged[0].contains("damaged beyond repair"), "{logged:?}");
                assert!(loss.what.contains("damaged beyond repair") && recording.span().contains(&loss.at), "{loss:?}");
            }
            several => panic!("{several:?}"),
        }
    }
    assert!(beyond_repair >= 3, "{beyond_repair}");
    let before = read(dir.path());
    self::recorder(dir.path()).finish().unwrap();
    assert_eq!(tails(dir.path()).len(), 0);
    assert_eq!(seconds_of(&read(dir.path())), seconds_of(&before), "closing it changes nothing");
}

#[test]
fn a_tail_that_is_cut_off_says_so() {
    let (name, tail) = tail();
    let dir = folder();
    let losses = |bytes: &[u8]| {
        fs::write(dir.path().join(&name), bytes).unwrap();
        let recording = Recording::open(dir.path()).unwrap();
        recording.losses().iter().map(|loss| loss.what.clone()).collect::<Vec<_>>()
    };
    assert_eq!(losses(&tail), [""; 0]);
    let said = losses(&tail[..tail.len() - 3]);
    assert!(said.len() == 1 && said[0].contains("ends in the middle of a sample"), "{said:?}");
    let (kept, logged) = read_with_log(dir.path());
    assert_eq!(kept.len() as u64, SAMPLES - 1);
    assert!(logged.len() == 1 && logged[0].contains("ends in the middle of a sample"), "{logged:?}");
    // The recorder that closes it says it in the recording, with the next sample after it said so in the log.
    let (closed, log) = std::sync::mpsc::channel();
    let log_line = Arc::new(move |line: &str| drop(closed.send(line.to_owned())));
    let mut recorder =
        whyslow_store::Recorder::begin(dir.path(), Duration::from_secs(1), common::RETENTION, log_line).unwrap();
    let line = log.recv_timeout(Duration::from_secs(60)).expect("a line in the log");
    assert!(line.contains("ended in the middle of a sample"), "{line}");
    (SAMPLES..SAMPLES + 2).for_each(|second| add(&mut recorder, made(second), Instant::now()));
    recorder.finish().unwrap();
    let events: Vec<String> = all(dir.path())
        .iter()
        .flat_map(|sample| &sample.kernel.sample)
        .filter_map(|row| row.event.get().map(str::to_owned))
        .collect();
    assert!(events.iter().any(|event| event.contains("ended in the middle of a sample")), "{events:?}");
}

#[test]
fn the_next_recorder_closes_the_tail_of_a_killed_one() {
    let (name, tail) = tail();
    for cut in [0, 20, chunk_ends(&tail)[0], tail.len() / 2, tail.len() - 1] {
        let dir = folder();
        fs::write(dir.path().join(&name), &tail[..cut]).unwrap();
        let before = read(dir.path());
        recorder(dir.path()).finish().unwrap();
        assert_eq!(tails(dir.path()).len(), 0, "cut at {cut}");
        assert!(read(dir.path()) == before, "cut at {cut}");
    }
}

#[test]
fn an_interrupted_closing_is_repeated_without_duplicates() {
    let (name, tail) = tail();
    let dir = folder();
    fs::write(dir.path().join(&name), &tail).unwrap();
    recorder(dir.path()).finish().unwrap();
    // As if killed after some of the tables, in the middle of another.
    let cpu = dir.path().join("cpu/day=2026-11-21/16.parquet");
    let half = fs::read(&cpu).unwrap();
    fs::write(cpu.with_extension("new"), &half[..half.len() / 2]).unwrap();
    fs::remove_file(&cpu).unwrap();
    fs::write(dir.path().join(&name), &tail).unwrap();
    recorder(dir.path()).finish().unwrap();
    assert!(read(dir.path()) == (0..SAMPLES).map(made).collect::<Vec<_>>());
    assert!(!cpu.with_extension("new").exists());
}

#[test]
fn foreign_files_are_reported_by_name() {
    let dir = folder();
    let complaint = |bytes: &[u8]| {
        fs::write(dir.path().join("1.tail"), bytes).unwrap();
        Recording::open(dir.path()).err().unwrap().to_string()
    };
    assert!(complaint(b"whyslow tail 4\n").contains("written by a newer whyslow"));
    assert!(complaint(b"#!/bin/sh").contains("1.tail: not a recording of whyslow"));
}

/// A closed recording of a few tables with much in them.
fn closed() -> (tempfile::TempDir, Vec<Snapshot>) {
    let dir = folder();
    common::record(dir.path(), 0..SAMPLES);
    (dir, (0..SAMPLES).map(made).collect())
}

fn read_with_log(dir: &Path) -> (Vec<Snapshot>, Vec<String>) {
    let logged: Arc<Mutex<Vec<String>>> = Arc::default();
    let lines = logged.clone();
    let log = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
    let recording = Recording::open_with_log(dir, log).expect("a recording");
    let read = recording.snapshots(&recording.span(), &common::EVERY).expect("the others are readable");
    let logged = logged.lock().unwrap().clone();
    (read.into_iter().map(plain).collect(), logged)
}

#[test]
fn a_truncated_file_loses_its_table_and_is_reported() {
    for table in ["disk", "sample"] {
        let (dir, mut samples) = closed();
        let file = dir.path().join(table).join("day=2026-11-21/16.parquet");
        let bytes = fs::read(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
        let (read, logged) = read_with_log(dir.path());
        if table == "disk" {
            samples.iter_mut().for_each(|sample| sample.block.disk.clear());
        }
        // Without the samples' own table the time since boot is that of the wall clock, to the millisecond.
        let ms = |samples: &[Snapshot]| samples.iter().map(|s| s.boot_ns / 1_000_000).collect::<Vec<_>>();
        assert_eq!(ms(&read), ms(&samples), "{table}");
        assert!(read.iter().zip(&samples).all(|(a, b)| a.processor == b.processor && a.block == b.block), "{table}");
        assert!(logged.len() == 1 && logged[0].contains(file.to_str().unwrap()), "{logged:?}");
        assert!(logged[0].contains("restore it from a backup, or delete it"), "{logged:?}");
        // What is recorded next goes beside it.
        common::record(dir.path(), SAMPLES..SAMPLES + 5);
        assert_eq!(tails(dir.path()).len(), 0, "{table}");
        assert_eq!(read_with_log(dir.path()).0.len() as u64, SAMPLES + 5, "{table}");
    }
}

#[test]
fn a_flipped_bit_in_a_page_is_detected() {
    let (dir, samples) = closed();
    let file = dir.path().join("disk/day=2026-11-21/16.parquet");
    let bytes = fs::read(&file).unwrap();
    // Pages come before the footer, whose length stands at the end.
    let footer = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize;
    let pages = 4..bytes.len() - 8 - footer;
    for at in pages.step_by(97) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&file, damaged).unwrap();
        let (read, logged) = read_with_log(dir.path());
        let as_made = |(read, made): (&Snapshot, &Snapshot)| read.block.disk.is_empty() || read.block == made.block;
        assert!(read.iter().zip(&samples).all(as_made), "flipped at {at}: {logged:?}");
        assert!(logged.len() == 1 || read == samples, "flipped at {at}: {logged:?}");
    }
}
