//! A recording that was cut short or damaged opens, and loses only what the damage touched.

mod common;

use common::{add, all, folder, made, plain, recorder, tails};
use std::fs;
use std::path::Path;
use std::time::Instant;
use whyslow_model::snapshot::Snapshot;
use whyslow_store::Recording;

const SAMPLES: u64 = 30;

/// A tail as a killed recorder leaves it.
fn tail() -> (String, Vec<u8>) {
    let dir = folder();
    let mut recorder = recorder(dir.path());
    for second in 0..SAMPLES {
        add(&mut recorder, made(second), Instant::now());
    }
    while recorder.waiting() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let tail = tails(dir.path()).remove(0);
    (tail.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(tail).unwrap())
}

/// Where each chunk of a tail ends; the first holds the header.
fn chunk_ends(tail: &[u8]) -> Vec<usize> {
    let mut at = b"whyslow tail 1\n".len();
    let mut ends = Vec::new();
    while at < tail.len() {
        at += 8 + u32::from_le_bytes(tail[at..at + 4].try_into().unwrap()) as usize;
        ends.push(at);
    }
    ends
}

fn read(dir: &Path) -> Vec<Snapshot> {
    if Recording::open(dir).is_err() { Vec::new() } else { all(dir).into_iter().map(plain).collect() }
}

#[test]
fn wherever_it_is_cut_all_samples_before_the_cut_are_there() {
    let (name, tail) = tail();
    let ends = chunk_ends(&tail);
    assert_eq!((ends.len() as u64, ends.last()), (1 + SAMPLES, Some(&tail.len())));
    let samples: Vec<Snapshot> = (0..SAMPLES).map(made).collect();
    let dir = folder();
    // Every single byte is cut at in the tests of `tail`.
    for cut in (0..tail.len()).step_by(tail.len() / 20).chain(ends.iter().rev().take(2).map(|end| end - 1)) {
        fs::write(dir.path().join(&name), &tail[..cut]).unwrap();
        let whole = ends.iter().filter(|end| **end <= cut).count().saturating_sub(1);
        let read = read(dir.path());
        assert_eq!(read.len(), whole, "cut at {cut}");
        assert!(read == samples[..whole], "cut at {cut}");
    }
}

#[test]
fn a_flipped_bit_costs_what_comes_after_it_and_nothing_before() {
    let (name, tail) = tail();
    let ends = chunk_ends(&tail);
    let samples: Vec<Snapshot> = (0..SAMPLES).map(made).collect();
    let dir = folder();
    for at in (ends[0]..tail.len()).step_by(tail.len() / 30) {
        let mut damaged = tail.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(dir.path().join(&name), damaged).unwrap();
        let whole = ends.iter().filter(|end| **end <= at).count() - 1;
        assert!(read(dir.path()) == samples[..whole], "flipped at {at}");
    }
}

#[test]
fn the_next_recorder_closes_what_a_killed_one_left() {
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
fn a_closing_that_was_cut_short_is_done_again_and_nothing_is_there_twice() {
    let (name, tail) = tail();
    let dir = folder();
    fs::write(dir.path().join(&name), &tail).unwrap();
    recorder(dir.path()).finish().unwrap();
    // As if it had been killed after some of the tables, and in the middle of another.
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
fn other_peoples_files_are_told_by_name() {
    let dir = folder();
    let complaint = |bytes: &[u8]| {
        fs::write(dir.path().join("1.tail"), bytes).unwrap();
        Recording::open(dir.path()).err().unwrap().to_string()
    };
    assert!(complaint(b"whyslow tail 2\n").contains("written by a newer whyslow"));
    assert!(complaint(b"#!/bin/sh").contains("1.tail: not a recording of whyslow"));
}
