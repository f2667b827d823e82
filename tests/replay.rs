//! Tests of `whyslow explain` on an hour with planted faults of known physics: one affects the whole machine, and two
//! show only in the threads that wait.

mod quiet;

use quiet::{SECOND, START};
use std::path::Path;
use std::process::{Command, Stdio};
use whyslow_bench_explain::{Clip, Player};
use whyslow_documents::explanation::Explanation;
use whyslow_model::catalogue::{Process, ProcessRow, Thread};
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;

/// Time of the clips, and uptime of the recorded machine, in seconds since boot.
const MADE: u64 = 1000;
const UP: u64 = 10_000;
/// Length of the capture of a fault, in seconds.
const FAULT: u64 = 17;

/// Plants a fault in a sample.
type Fault = fn(&mut Snapshot, u64);

/// Returns a clip of a machine with two processors and a nearly idle process; the first sample is not played.
fn clip(seconds: u64, fault: Fault) -> Clip {
    let sample = |t: u64| {
        let mut s = quiet::machine(t, 50);
        (s.boot_ns, s.wall_ns) = ((MADE + t) * SECOND, 1);
        s.task.process.push(process(1, "init", 1, t * SECOND / 100).into());
        fault(&mut s, t);
        s.sort();
        s
    };
    Clip::new((0..=seconds).map(sample).collect())
}

fn process(pid: u32, name: &str, threads: u32, user: u64) -> ProcessRow {
    ProcessRow {
        command: name.into(),
        state: "S".into(),
        user: user.into(),
        system: 0.into(),
        run_delay: 0.into(),
        nice: 0.0.into(),
        threads: f64::from(threads).into(),
        kernel_thread: 0.0.into(),
        ..ProcessRow::new(TaskKey { pid, tid: pid, start: 7 })
    }
}

/// Makes six processes share two processors.
fn too_much_work(s: &mut Snapshot, t: u64) {
    s.processor.cpu.iter_mut().for_each(|cpu| (cpu.user, cpu.idle) = ((t * SECOND).into(), 0.into()));
    s.processor.pressure[0].cpu_some = (t * SECOND * 98 / 100).into();
    for pid in 50..56 {
        let run_delay = (t * SECOND * 2 / 3).into();
        s.task.process.push(Process::from(ProcessRow {
            state: "R".into(),
            run_delay,
            ..process(pid, "spin", 1, t * SECOND / 3)
        }));
    }
}

/// Adds three threads that wait for a fourth, which does little and holds the lock.
fn a_lock_held(s: &mut Snapshot, t: u64) {
    let fight = process(70, "fight", 4, t * SECOND / 50);
    s.task.process.push(Process::from(ProcessRow {
        voluntary_switches: (t * 40).into(),
        involuntary_switches: 0.into(),
        ..fight
    }));
    for tid in 70..74 {
        s.task.thread.push(Thread {
            command: "fight".into(),
            state: "S".into(),
            user: (t * SECOND / 200).into(),
            system: 0.into(),
            run_delay: 0.into(),
            voluntary_switches: (t * 10).into(),
            involuntary_switches: 0.into(),
            lock_wait: f64::from(u8::from(tid != 70)).into(),
            nice: 0.0.into(),
            ..Thread::new(TaskKey { pid: 70, tid, start: 7 })
        });
    }
}

/// Adds a writer on a frozen file system.
fn a_writer_stuck(s: &mut Snapshot, _: u64) {
    s.task.process.push(Process::from(ProcessRow {
        state: "D".into(),
        wait_channel: "percpu_rwsem_wait".into(),
        voluntary_switches: 5.into(),
        involuntary_switches: 0.into(),
        ..process(90, "writer", 1, 0)
    }));
}

/// Planted faults with their seconds: near the edges of segments, near the edges of judged windows, and anywhere else.
const PLANTED: [(u64, &str, Fault); 4] = [
    (391, "cpu.saturated@host", too_much_work),
    (1500, "lock.contention@fight[70]", a_lock_held),
    (2222, "task.blocked@writer[90/90]", a_writer_stuck),
    (3583, "cpu.saturated@host", too_much_work),
];

fn play(into: &Path) {
    let quiet = clip(20, |_, _| {});
    let mut player = Player::begin(into, START, UP * SECOND).unwrap();
    let rest = |player: &mut Player, until: u64| {
        while player.seconds() < until {
            let left = (until - player.seconds()) as usize;
            player.play(&quiet.part(0, left.min(quiet.played().len())));
        }
    };
    for (at, _, fault) in PLANTED {
        rest(&mut player, at);
        player.play(&clip(FAULT, fault));
    }
    rest(&mut player, 3600);
    assert_eq!(player.finish(), Ok(3600));
}

/// Returns seconds from the start of the recording.
fn second(time: &str) -> f64 {
    let time = time.strip_prefix("2026-11-21T").and_then(|time| time.strip_suffix('Z')).expect(time);
    let parts: Vec<f64> = time.split(':').map(|part| part.parse().unwrap()).collect();
    (parts[0] * 60.0 + parts[1]) * 60.0 + parts[2] - ((16.0 * 60.0 + 43.0) * 60.0 + 20.0)
}

#[test]
fn each_fault_is_found_with_its_times_and_nothing_else() {
    let dir = whyslow_testing::memory_folder();
    play(dir.path());
    let config = whyslow_testing::folder();
    let mut whyslow = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    whyslow.args(["explain", "--json", "--dir"]).arg(dir.path()).env("XDG_CONFIG_HOME", config.path());
    let out = whyslow.env("TZ", "UTC").stdin(Stdio::null()).output().unwrap();
    let explanation: Explanation = serde_json::from_slice(&out.stdout).expect("an explanation");
    let keys: Vec<&str> = explanation.episodes.iter().map(|episode| episode.key.as_str()).collect();
    assert_eq!(keys, PLANTED.map(|(_, key, _)| key));
    for ((at, key, _), episode) in PLANTED.iter().zip(&explanation.episodes) {
        let (start, end) = (second(&episode.start) - *at as f64, second(&episode.end) - (at + FAULT) as f64);
        assert!(start.abs() <= 3.0 && end.abs() <= 3.0, "{key}: start off by {start} s, end by {end} s");
    }
}
