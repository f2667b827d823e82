//! Snapshots in which each metric of the catalogue has a value or is absent, in turn.

// Each test program uses part of this.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_model::catalogue::{EachFamily, Family, MetricKind};
use whyslow_model::histogram::Histogram;
use whyslow_model::key::{Key, KeyPart, KeyPartKind};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{State, Value};
use whyslow_store::{Recorder, Recording, Retention};

pub const SECOND: u64 = 1_000_000_000;
/// 2026-11-21 16:43:20 UTC.
pub const START: i64 = 1_795_279_400 * SECOND as i64;

/// The sample of a second: rows appear, change, stay the same and disappear.
pub fn made(second: u64) -> Snapshot {
    let mut snapshot = Snapshot {
        wall_ns: START + (second * SECOND) as i64 + 17_000_000,
        boot_ns: 1000 * SECOND + second * SECOND + 17,
        ..Snapshot::default()
    };
    snapshot.each_family(&mut Rows { second });
    snapshot.kernel.sample.clear();
    // In the resolution of a recording.
    for source in &mut snapshot.sources {
        (source.cpu_ns, source.wall_ns) = (source.cpu_ns * 10_000, source.wall_ns * 10_000);
    }
    snapshot.kernel.machine.iter_mut().for_each(|machine| machine.boot = "b00t".into());
    snapshot.sort();
    snapshot.sources.sort_by(|a, b| a.source.cmp(&b.source));
    snapshot
}

struct Rows {
    second: u64,
}

impl EachFamily for Rows {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        // One family in three is read rarely, like settings.
        let rarely = F::INFO.name.len() % 3 == 0;
        if rarely && !self.second.is_multiple_of(20) {
            return;
        }
        let entities = if F::Key::COLUMNS.is_empty() { 1 } else { 5 };
        for entity in 0..entities {
            // Entity 2 comes and goes; 3 appears later.
            let exists = entity != 2 || self.second % 7 < 4;
            if exists && (entity != 3 || self.second >= 5) {
                rows.push(row(entity, self.second));
            }
        }
    }
}

fn row<F: Family>(entity: u64, second: u64) -> F {
    let part = |(name, kind): (&str, KeyPartKind)| match (name, kind) {
        (_, KeyPartKind::Number) => KeyPart::Number(entity * 1000 + 7),
        ("local" | "remote", _) => KeyPart::Text(format!("10.0.0.{entity}:80").into()),
        _ => KeyPart::Text(format!("a \"name\",\n{entity}").into()),
    };
    let mut parts = F::INFO.key_columns().map(part).collect::<Vec<_>>().into_iter();
    let mut row = F::keyed(F::Key::put_together(&mut parts).expect("a key of its parts"));
    for (column, metric) in F::INFO.metrics.iter().enumerate() {
        let turn = entity + column as u64;
        // Some entities never change, and each has absent metrics.
        let now = if entity == 1 { 0 } else { second };
        if turn % 5 != 4 {
            row.put(column, value(metric.kind, turn, now));
        }
    }
    row
}

fn value(kind: MetricKind, turn: u64, now: u64) -> Value {
    match kind {
        MetricKind::Counter => Value::Counter((turn * 1_000_000_007 + now * now * 12_345).into()),
        MetricKind::Gauge if turn.is_multiple_of(2) => Value::Gauge((now as f64 / 7.0).into()),
        MetricKind::Gauge => Value::Gauge((turn * 4096 + now % 3).into()),
        MetricKind::State => Value::State(State::from(format!("state {}", now / 4))),
        MetricKind::Histogram => Value::Histogram(Histogram::from_values((0..now).map(|v| v * turn * 100))),
    }
}

/// A folder for a test, in memory if possible: tests wait for every sample.
pub fn folder() -> tempfile::TempDir {
    whyslow_testing::memory_folder()
}

/// The tails in a folder.
pub fn tails(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "tail")).collect()
}

/// A sample without the row that the recorder added.
pub fn plain(mut snapshot: Snapshot) -> Snapshot {
    snapshot.kernel.sample.clear();
    snapshot
}

/// The made-up samples are of one day, and never expire.
pub const RETENTION: Retention = Retention { time: Duration::MAX, bytes: 1 << 30, thin_when_full: true };

pub fn recorder(dir: &Path) -> Recorder {
    Recorder::begin(dir, Duration::from_secs(1), RETENTION, Arc::new(|_: &str| {})).expect("a recorder")
}

/// Records these seconds, and ends the recording.
pub fn record(dir: &Path, seconds: std::ops::Range<u64>) {
    let mut recorder = recorder(dir);
    let begun = Instant::now();
    for second in seconds {
        add(&mut recorder, made(second), begun + Duration::from_secs(second));
    }
    recorder.finish().expect("all was written");
}

/// Adds a sample, without outrunning the disk.
pub fn add(recorder: &mut Recorder, snapshot: Snapshot, begun: Instant) {
    wait_until_at_most(recorder, 30);
    recorder.add(snapshot, begun);
}

/// Waits until all that was added has been written.
pub fn wait_until_written(recorder: &Recorder) {
    wait_until_at_most(recorder, 0);
}

fn wait_until_at_most(recorder: &Recorder, waiting: usize) {
    let start = Instant::now();
    while recorder.waiting() > waiting {
        assert!(start.elapsed() < Duration::from_secs(60), "{} samples are not written", recorder.waiting());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Every sample in a recording.
pub fn all(dir: &Path) -> Vec<Snapshot> {
    let recording = Recording::open(dir).expect("a recording");
    recording.snapshots(&recording.span(), &EVERY).expect("readable")
}

pub const EVERY: fn(&str) -> bool = |_| true;
