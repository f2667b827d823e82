//! What reading and closing a recording costs follows its size, not the number of its parts or the time that it spans.

mod common;

use common::{EVERY, SECOND, add, folder, made, recorder, tails};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_store::Recording;

/// A field of /proc/thread-self/io (proc(5)).
fn of_this_thread(field: &str) -> u64 {
    let text = fs::read_to_string("/proc/thread-self/io").unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(": "));
    value.unwrap().parse().unwrap()
}

/// The bytes of all files.
fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { size(&path) } else { fs::metadata(path).unwrap().len() }).sum()
}

/// Records two samples with each of so many recorders, one after the other. The tails of killed ones are left in `killed`.
fn record_with_restarts(dir: &Path, restarts: u64, killed: Option<&Path>) {
    for restart in 0..restarts {
        let mut recorder = recorder(dir);
        for second in [3 * restart, 3 * restart + 1] {
            add(&mut recorder, made(second), Instant::now());
        }
        if let Some(killed) = killed {
            common::wait_until_written(&recorder);
            let tail = tails(dir).into_iter().max().unwrap();
            fs::copy(&tail, killed.join(tail.file_name().unwrap())).unwrap();
        }
        recorder.finish().unwrap();
    }
}

#[test]
fn a_tail_is_read_once_however_long_it_is() {
    let dir = folder();
    let mut recorder = recorder(dir.path());
    (0..300).for_each(|second| add(&mut recorder, made(second), Instant::now()));
    common::wait_until_written(&recorder);
    let size = size(dir.path());
    let before = of_this_thread("rchar");
    let recording = Recording::open(dir.path()).unwrap();
    let mut samples = 0;
    for _ in 0..3 {
        recording
            .each_sample(&recording.span(), &EVERY, |_| {
                samples += 1;
                true
            })
            .unwrap();
    }
    let read = of_this_thread("rchar") - before;
    assert!(samples == 900 && read <= 2 * size, "{read} bytes were read of {size}");
}

#[test]
fn time_in_which_nothing_was_recorded_is_passed_over() {
    let dir = folder();
    let mut recorder = recorder(dir.path());
    let begun = Instant::now();
    let decades = 50 * 365 * 86_400;
    for second in [0, 1, 2, decades, decades + 1] {
        // Only the wall clock was set.
        let mut sample = made(second % decades.min(1000));
        sample.wall_ns = common::START + (second * SECOND) as i64;
        sample.boot_ns = (1000 + second.min(3) + second.saturating_sub(decades)) * SECOND;
        add(&mut recorder, sample, begun);
    }
    recorder.finish().unwrap();
    let recording = Recording::open(dir.path()).unwrap();
    assert!(recording.span().end() - recording.span().start() > (decades * SECOND) as i64);
    let before = of_this_thread("syscr");
    let mut samples = 0;
    recording
        .each_sample(&recording.span(), &EVERY, |_| {
            samples += 1;
            true
        })
        .unwrap();
    let reads = of_this_thread("syscr") - before;
    assert!(samples == 5 && reads < 100_000, "{reads} reads");
}

#[test]
fn the_tails_of_killed_recorders_are_closed_together() {
    let (dir, killed) = (folder(), folder());
    record_with_restarts(dir.path(), 20, Some(killed.path()));
    assert_eq!(tails(killed.path()).len(), 20);
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let logged = Arc::new(std::sync::Mutex::new(Vec::new()));
    let lines = logged.clone();
    let log = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
    let recorder =
        whyslow_store::Recorder::begin(killed.path(), Duration::from_secs(1), common::RETENTION, log).unwrap();
    let file = killed.path().join("cpu/day=2026-11-21/16.parquet");
    let mut versions = std::collections::BTreeSet::new();
    while !tails(killed.path()).is_empty() {
        versions.extend(file.exists().then(|| inode(&file)));
        std::thread::yield_now();
    }
    recorder.finish().unwrap();
    assert!(versions.len() <= 3, "{} versions of a file were written", versions.len());
    assert_eq!(*logged.lock().unwrap(), [""; 0]);
    let read = |dir: &Path| common::all(dir).into_iter().map(common::plain).collect::<Vec<_>>();
    assert!(read(killed.path()) == read(dir.path()), "as if each had been closed by itself");
}
