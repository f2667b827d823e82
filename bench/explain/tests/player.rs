//! Tests that playback continues where it stopped.

use std::path::Path;
use whyslow_bench_explain::{Clip, Player};
use whyslow_model::catalogue::{Disk, LogLine, Process, ProcessRow, Queue};
use whyslow_model::histogram::Histogram;
use whyslow_model::key::{OperationKey, TaskKey};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::window::Window;
use whyslow_store::Recording;

const SECOND: u64 = 1_000_000_000;
/// 2026-11-21 16:43:20 UTC.
const START: i64 = 1_795_279_400 * SECOND as i64;
/// Uptime in seconds when the clip was made, and when it is played.
const MADE: u64 = 1000;
const UP: u64 = 5000;

/// Returns the clip's sample for a second: a disk that reads ten times a second, an old process, one that began within
/// the clip, and a line of the log each second.
fn sample(t: u64) -> Snapshot {
    let mut s = Snapshot { boot_ns: (MADE + t) * SECOND, wall_ns: 1, ..Snapshot::default() };
    let reads = 7_000 + t * 10;
    s.block.disk.push(Disk { reads: reads.into(), in_flight: 3.0.into(), ..Disk::new("vda".into()) });
    let on = OperationKey { device: "vda".into(), operation: "read".into() };
    s.block.request.push(whyslow_model::catalogue::Request {
        device_time: Histogram::from_counts([(40, reads)]),
        ..whyslow_model::catalogue::Request::new(on)
    });
    if t == 0 {
        s.block.queue.push(Queue { scheduler: "none".into(), ..Queue::new("vda".into()) });
    }
    s.task.process.push(process(1, 3, t));
    if t >= 2 {
        s.task.process.push(process(900, (MADE + 2) * 100, t - 2));
    }
    let line = LogLine { time: s.boot_ns.into(), text: "a line".into(), ..LogLine::new(500 + t) };
    s.kernel.log.push(line);
    s.sort();
    s
}

fn process(pid: u32, start: u64, seconds: u64) -> Process {
    Process::from(ProcessRow { user: (seconds * SECOND).into(), ..ProcessRow::new(TaskKey { pid, tid: pid, start }) })
}

fn played(into: &Path, times: usize) -> Vec<Snapshot> {
    let clip = Clip::new((0..=4).map(sample).collect());
    let mut player = Player::begin(into, START, UP * SECOND).unwrap();
    (0..times).for_each(|_| player.play(&clip));
    assert_eq!(player.seconds(), 4 * times as u64);
    assert_eq!(player.finish().unwrap(), 4 * times as u64);
    let recording = Recording::open(into).unwrap();
    recording.snapshots(&recording.span(), &|_: &str| true).unwrap()
}

#[test]
fn counters_go_on_from_clip_to_clip() {
    let dir = whyslow_testing::memory_folder();
    let samples = played(dir.path(), 3);
    let times: Vec<(i64, u64)> = samples.iter().map(|s| (s.wall_ns, s.boot_ns)).collect();
    let expected: Vec<(i64, u64)> = (0..12).map(|t| (START + (t * SECOND) as i64, (UP + t) * SECOND)).collect();
    assert_eq!(times, expected);
    let window = Window::new(samples);
    let disk = window.change::<Disk>().unwrap();
    let steps: Vec<Option<f64>> = disk.steps(|d| d.reads).map(|(_, step)| step).collect();
    assert_eq!(steps, [Some(10.0); 11], "over the seams too");
    assert_eq!((disk.first().reads.get(), disk.max(|d| d.in_flight)), (Some(7010), Some(3.0)));
    let requests = window.change::<whyslow_model::catalogue::Request>().unwrap();
    assert_eq!(requests.histogram(|r| &r.device_time).unwrap().count(), Some(110));
    assert_eq!(window.newest::<Queue>().len(), 1, "what was read at the beginning belongs to the clip");
}

#[test]
fn what_begins_within_a_clip_begins_anew() {
    let dir = whyslow_testing::memory_folder();
    let window = Window::new(played(dir.path(), 2));
    let used = |pid: u32| -> Vec<(u64, u64)> {
        let rows = window.newest::<Process>();
        let own = rows.iter().filter(|(key, _)| key.pid == pid);
        own.map(|(key, row)| (key.start, row.user.get().unwrap() / SECOND)).collect()
    };
    assert_eq!(used(1), [(3, 8)], "one that was there before goes on");
    // Played from the first sample after the one that provides the start of the counters.
    assert_eq!(used(900), [((UP + 1) * 100, 2), ((UP + 5) * 100, 2)], "one that was not is another each time");
    let lines = window.newest::<LogLine>();
    assert_eq!(lines.len(), 8, "no line is taken for one before");
    let times: Vec<u64> = lines.values().map(|line| line.time.get().unwrap() / SECOND).collect();
    assert!(times.is_sorted() && times[0] >= UP, "{times:?}");
}
