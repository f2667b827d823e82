//! What is read back equals what was recorded: every metric of the catalogue, absent ones included.

mod common;

use common::{EVERY, START, add, all, made, plain, record, recorder, tails};
use std::time::{Duration, Instant};
use whyslow_model::catalogue::{Cpu, Disk, Family, InventoryChange, InventoryItem, LogLine, Processor, Sample};
use whyslow_model::key::InventoryKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_store::Recording;

#[test]
fn a_closed_recording_equals_what_was_recorded() {
    let dir = common::folder();
    record(dir.path(), 0..50);
    assert!(tails(dir.path()).is_empty());
    let again: Vec<Snapshot> = all(dir.path()).into_iter().map(plain).collect();
    assert_eq!(again.len(), 50);
    for (second, snapshot) in again.into_iter().enumerate() {
        assert_eq!(snapshot, made(second as u64), "second {second}");
    }
}

#[test]
fn an_unfinished_recording_equals_what_was_recorded() {
    let dir = common::folder();
    let mut recorder = recorder(dir.path());
    for second in 0..50 {
        add(&mut recorder, made(second), Instant::now());
    }
    common::wait_until_written(&recorder);
    assert_eq!(tails(dir.path()).len(), 1);
    let again: Vec<Snapshot> = all(dir.path()).into_iter().map(plain).collect();
    assert_eq!(again, (0..50).map(made).collect::<Vec<_>>());
    recorder.finish().unwrap();
}

#[test]
fn segments_end_at_ten_minutes_and_share_the_hours_file() {
    let dir = common::folder();
    // 16:43:20 to 17:01:40: three segments, the last in another hour.
    let mut recorder = recorder(dir.path());
    let begun = Instant::now();
    let seconds: Vec<u64> = (0..1100).step_by(20).collect();
    for second in &seconds {
        add(&mut recorder, made(*second), begun + Duration::from_secs(*second));
    }
    recorder.finish().unwrap();
    let recording = Recording::open(dir.path()).unwrap();
    assert_eq!(recording.segments().len(), 3);
    let hours = std::fs::read_dir(dir.path().join("cpu/day=2026-11-21")).unwrap();
    let mut hours: Vec<_> = hours.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    hours.sort();
    assert_eq!(hours, ["16.parquet", "17.parquet"]);
    let again: Vec<Snapshot> = all(dir.path()).into_iter().map(plain).collect();
    assert_eq!(again, seconds.iter().map(|second| made(*second)).collect::<Vec<_>>());
}

#[test]
fn the_first_sample_of_a_span_has_the_rows_that_are_read_rarely() {
    let dir = common::folder();
    record(dir.path(), 0..60);
    let recording = Recording::open(dir.path()).unwrap();
    let second = |s: i64| START + s * common::SECOND as i64;
    let mut windows = Vec::new();
    let each = |window| {
        windows.push(window);
        true
    };
    recording.each_window(&(second(45)..=second(52)), Duration::from_secs(3), &EVERY, each).unwrap();
    let spans: Vec<_> =
        windows.iter().map(|w| (w.snapshots()[0].boot_ns / common::SECOND - 1000, w.seconds())).collect();
    assert_eq!(
        spans,
        [(45, 3.0), (48, 3.0)],
        "each begins where the one before ended, and the rest is too short for one"
    );
    let first = &windows[0].snapshots()[0];
    let last = windows[0].last().unwrap();
    // `cpu` was read at 40 and not since; `disk` at every sample.
    assert_eq!((Cpu::rows(&made(45)), Cpu::rows(first)), (&[][..], Cpu::rows(&made(40))));
    assert_eq!(Cpu::rows(last), []);
    assert_eq!(Cpu::rows(&windows[1].snapshots()[0]), Cpu::rows(&made(40)));
    assert_eq!(Disk::rows(first), Disk::rows(&made(45)));
    // Events are not carried over.
    assert_eq!(LogLine::rows(first), []);
}

#[test]
fn a_log_line_where_windows_meet_appears_once() {
    let dir = common::folder();
    record(dir.path(), 0..60);
    let recording = Recording::open(dir.path()).unwrap();
    let mut seconds = Vec::new();
    let each = |window: whyslow_model::window::Window| {
        let with_lines = window.snapshots().iter().filter(|sample| !LogLine::rows(sample).is_empty());
        seconds.extend(with_lines.map(|sample| sample.boot_ns / common::SECOND - 1000));
        true
    };
    recording.each_window(&recording.span(), Duration::from_secs(4), &EVERY, each).unwrap();
    assert_eq!(seconds, [0, 20, 40]);
}

#[test]
fn a_gap_ends_a_window_and_a_long_interval_does_not() {
    let windows = |seconds: &[u64]| {
        let dir = common::folder();
        let mut recorder = recorder(dir.path());
        seconds.iter().for_each(|second| add(&mut recorder, made(*second), Instant::now()));
        recorder.finish().unwrap();
        let recording = Recording::open(dir.path()).unwrap();
        let mut windows = Vec::new();
        let each = |window: whyslow_model::window::Window| {
            windows.push((window.snapshots()[0].boot_ns / common::SECOND - 1000, window.seconds()));
            true
        };
        recording.each_window(&recording.span(), Duration::from_secs(3), &EVERY, each).unwrap();
        windows
    };
    assert_eq!(windows(&[0, 1, 2, 100, 101, 102, 103]), [(0, 2.0), (100, 3.0)]);
    assert_eq!(windows(&[0, 60, 120]), [(0, 60.0), (60, 60.0)]);
}

#[test]
fn only_the_wanted_families_are_read() {
    let dir = common::folder();
    record(dir.path(), 0..10);
    let recording = Recording::open(dir.path()).unwrap();
    let only = |family: &str| family == Cpu::INFO.name;
    let samples = recording.snapshots(&recording.span(), &only).unwrap();
    let expected = |second: u64| Snapshot {
        processor: Processor { cpu: made(second).processor.cpu.clone(), ..Processor::default() }.into(),
        wall_ns: made(second).wall_ns,
        boot_ns: made(second).boot_ns,
        ..Snapshot::default()
    };
    assert_eq!(samples.into_iter().map(plain).collect::<Vec<_>>(), (0..10).map(expected).collect::<Vec<_>>());
}

#[test]
fn missed_samples_and_clock_changes_are_recorded() {
    let dir = common::folder();
    let mut recorder = recorder(dir.path());
    let begun = Instant::now();
    let at = |second: u64| begun + Duration::from_secs(second);
    add(&mut recorder, made(0), at(0));
    add(&mut recorder, made(1), at(1));
    // Four samples that were due were not taken.
    add(&mut recorder, made(6), at(6));
    // The clock is set back by an hour.
    let mut back = made(7);
    back.wall_ns -= 3600 * common::SECOND as i64;
    add(&mut recorder, back, at(7));
    // The machine sleeps for 100 s.
    let mut slept = made(108);
    slept.wall_ns -= 3600 * common::SECOND as i64;
    add(&mut recorder, slept, at(8));
    recorder.finish().unwrap();
    let samples = all(dir.path());
    assert!(samples.is_sorted_by_key(|sample| sample.boot_ns), "in the order of time, though the clock was set back");
    let events: Vec<_> = samples
        .iter()
        .map(|s| s.the::<Sample>().unwrap())
        .map(|s| (s.missed.get().unwrap(), s.event.get().unwrap_or_default()))
        .collect();
    assert_eq!(
        events,
        [
            (0.0, "recording began"),
            (0.0, ""),
            (4.0, ""),
            (0.0, "the wall clock was set by -3600.0 s"),
            (100.0, "the machine was suspended for 100.0 s"),
        ]
    );
}

#[test]
fn setting_the_clock_forward_and_back_loses_no_sample() {
    const HOUR: i64 = 3600 * common::SECOND as i64;
    let dir = common::folder();
    let mut recorder = recorder(dir.path());
    let begun = Instant::now();
    let set_to = |second: u64| if (5..10).contains(&second) { 26 * HOUR } else { 0 };
    for second in 0..15 {
        let mut sample = made(second);
        sample.wall_ns += set_to(second);
        add(&mut recorder, sample, begun + Duration::from_secs(second));
    }
    assert_eq!(recorder.finish().unwrap().samples, 15);
    let samples = all(dir.path());
    let times: Vec<_> = samples.iter().map(|sample| sample.boot_ns / common::SECOND - 1000).collect();
    assert_eq!(times, (0..15).collect::<Vec<_>>(), "in the order of time");
    let event = |second: usize| samples[second].the::<Sample>().unwrap().event.get().unwrap_or_default().to_owned();
    assert_eq!(event(5), "the wall clock was set by +93600.0 s");
    assert_eq!(event(10), "the wall clock was set by -93600.0 s");
    for (second, sample) in samples.into_iter().map(plain).enumerate() {
        let mut expected = made(second as u64);
        expected.wall_ns += set_to(second as u64);
        assert_eq!(sample, expected, "second {second}");
    }
}

#[test]
fn two_recordings_of_one_folder_follow_one_another() {
    let dir = common::folder();
    record(dir.path(), 0..5);
    record(dir.path(), 8..12);
    let again: Vec<Snapshot> = all(dir.path()).into_iter().map(plain).collect();
    assert_eq!(again, (0..5).chain(8..12).map(made).collect::<Vec<_>>());
}

#[test]
fn an_empty_folder_is_not_a_recording() {
    let dir = common::folder();
    for folder in [dir.path().to_owned(), dir.path().join("missing")] {
        let complaint = Recording::open(&folder).err().unwrap().to_string();
        assert!(complaint.ends_with("here; 'whyslow record' starts a recording"), "{complaint}");
    }
}

/// A machine with one package, whose version is listed in one sample of each run, and changes in another.
#[test]
fn the_inventory_at_a_time_has_the_changes_since_it_was_listed() {
    let bash = || InventoryKey { kind: "package".into(), name: "bash".into() };
    let sample = |second: u64| {
        let wall_ns = START + (second * common::SECOND) as i64;
        let mut sample = Snapshot { wall_ns, boot_ns: (1000 + second) * common::SECOND, ..Snapshot::default() };
        let listed = |version: &str| vec![InventoryItem { value: version.into(), ..InventoryItem::new(bash()) }];
        match second {
            2 => sample.kernel.inventory = listed("5.1"),
            // It was changed five seconds before that was seen.
            10 => {
                let time = (sample.wall_ns - 5 * common::SECOND as i64).unsigned_abs().into();
                let (old, new) = ("5.1".into(), "5.2".into());
                sample.kernel.change = vec![InventoryChange { old, new, time, ..InventoryChange::new(bash()) }];
            }
            101 => sample.kernel.inventory = listed("5.3"),
            _ => {}
        }
        sample
    };
    let dir = common::folder();
    let mut first = recorder(dir.path());
    (0..30).for_each(|second| add(&mut first, sample(second), Instant::now()));
    first.finish().unwrap();
    drop(first);
    let mut second = recorder(dir.path());
    (100..110).for_each(|at| add(&mut second, sample(at), Instant::now()));
    common::wait_until_written(&second);
    assert_eq!(tails(dir.path()).len(), 1);

    let recording = Recording::open(dir.path()).unwrap();
    let at = |second: i64| START + second * common::SECOND as i64;
    let version = |second: i64| {
        let inventory = recording.inventory(at(second)).unwrap()?;
        Some(inventory.entries().map(|entry| entry.value.to_string()).collect::<String>())
    };
    let expected = [None, Some("5.1"), Some("5.2"), Some("5.2"), Some("5.3")];
    assert_eq!([1, 9, 10, 99, 200].map(version), expected.map(|version| version.map(str::to_owned)));
    let changes = |span: std::ops::Range<i64>| -> Vec<(i64, String)> {
        let changes = recording.changes(&(at(span.start)..=at(span.end) - 1)).unwrap();
        changes.iter().map(|change| (change.at, change.in_words())).collect()
    };
    let [upgraded, while_off] = [(5, "package bash: was 5.1, is 5.2"), (101, "package bash: was 5.2, is 5.3")]
        .map(|(second, what)| (at(second), what.to_owned()));
    assert_eq!(changes(0..200), [upgraded.clone(), while_off.clone()]);
    assert_eq!(changes(0..8), [upgraded], "it was seen after the span");
    assert_eq!(changes(8..101), []);
    assert_eq!(changes(101..102), [while_off]);
    second.finish().unwrap();
}
