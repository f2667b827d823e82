//! Recordings of samples that are made up.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_model::snapshot::Snapshot;
use whyslow_store::{Judge, Recorder, Retention, SampleCounts};

/// A folder for a recording, in memory if possible.
pub fn folder() -> tempfile::TempDir {
    whyslow_testing::memory_folder()
}

/// Records so many samples, one for each second.
pub fn record(dir: &Path, length: u64, sample: impl Fn(u64) -> Snapshot) -> SampleCounts {
    record_with(recorder(dir), length, sample)
}

/// The same, judged while it is recorded.
#[allow(dead_code, reason = "not every test that records judges")]
pub fn record_judged(dir: &Path, length: u64, judge: Judge, sample: impl Fn(u64) -> Snapshot) -> SampleCounts {
    record_with(recorder(dir).judged_by(judge).unwrap(), length, sample)
}

fn recorder(dir: &Path) -> Recorder {
    let log = Arc::new(|line: &str| panic!("{line}"));
    // They are of one day, and kept however long ago that is.
    let retention = Retention { time: Duration::MAX, ..Retention::default() };
    Recorder::begin(dir, Duration::from_secs(1), retention, log).unwrap()
}

fn record_with(recorder: Recorder, length: u64, sample: impl Fn(u64) -> Snapshot) -> SampleCounts {
    let begun = Instant::now();
    for t in 0..length {
        while recorder.waiting() > 30 {
            std::thread::sleep(Duration::from_millis(1));
        }
        recorder.add(sample(t), begun + Duration::from_secs(t));
    }
    recorder.finish().unwrap()
}
