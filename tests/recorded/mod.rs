//! Recordings of invented samples.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use whyslow_model::catalogue::{Cpu, Pressure, Process, ProcessRow, System};
use whyslow_model::key::{MachineKey, TaskKey};
use whyslow_model::snapshot::Snapshot;
use whyslow_store::{Judge, Recorder, Retention, SampleCounts};

const SECOND: u64 = 1_000_000_000;

/// Returns a folder for a recording, in memory if possible.
pub fn folder() -> tempfile::TempDir {
    whyslow_testing::memory_folder()
}

/// Records this many samples, one per second.
pub fn record(dir: &Path, length: u64, sample: impl Fn(u64) -> Snapshot) -> SampleCounts {
    record_with(recorder(dir), length, sample)
}

/// Records like [`record`] and judges during the recording.
#[allow(dead_code, reason = "not every test that records judges")]
pub fn record_judged(dir: &Path, length: u64, judge: Judge, sample: impl Fn(u64) -> Snapshot) -> SampleCounts {
    record_with(recorder(dir).judged_by(judge).unwrap(), length, sample)
}

fn recorder(dir: &Path) -> Recorder {
    let log = Arc::new(|line: &str| panic!("{line}"));
    // All samples are of one day; keep them, however long ago that is.
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

/// Returns a sample of a machine with two CPUs after `t` seconds, in `busy` of which there was more work than CPUs.
#[allow(dead_code, reason = "not every test that records has this machine")]
pub fn two_cpus(t: u64, wall_ns: i64, busy: u64) -> Snapshot {
    let mut s = Snapshot { boot_ns: (1000 + t) * SECOND, wall_ns, ..Snapshot::default() };
    for cpu in 0..2 {
        s.processor.cpu.push(Cpu {
            user: (busy * SECOND).into(),
            system: 0.into(),
            idle: ((t - busy) * SECOND).into(),
            iowait: 0.into(),
            ..Cpu::new(cpu)
        });
    }
    s.processor.pressure.push(Pressure {
        cpu_some: (busy * SECOND * 98 / 100).into(),
        memory_some: 0.into(),
        io_some: 0.into(),
        ..Pressure::new(MachineKey)
    });
    s.processor.system.push(System { blocked: 0.0.into(), ..System::new(MachineKey) });
    s
}

/// Returns a process that has shared two CPUs with five others for this many seconds; `start` is in clock ticks since
/// boot.
#[allow(dead_code, reason = "not every test that records has this machine")]
pub fn one_of_six(pid: u32, name: &str, start: u64, seconds: u64) -> Process {
    Process::from(ProcessRow {
        command: name.into(),
        state: "R".into(),
        user: (seconds * SECOND / 3).into(),
        system: 0.into(),
        run_delay: (seconds * SECOND * 2 / 3).into(),
        nice: 0.0.into(),
        threads: 1.0.into(),
        kernel_thread: 0.0.into(),
        ..ProcessRow::new(TaskKey { pid, tid: pid, start })
    })
}
