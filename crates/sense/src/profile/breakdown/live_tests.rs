//! Tests on the live kernel with programs whose time usage is known.

use super::{BreakdownTracer, ProcessTimes, ThreadSet};
use crate::root::Root;
use crate::testing::{Reaped, has_bpf, no_crowd, wait_until};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use whyslow_documents::time_breakdown::{TimeKind, TimePart};

/// Watches processes, and some of their children, for this long and returns their combined times.
fn watched(tracer: &mut BreakdownTracer, long: Duration) -> ProcessTimes {
    let end = Instant::now() + long;
    while Instant::now() < end {
        std::thread::sleep(BreakdownTracer::PACE.min(end.saturating_duration_since(Instant::now())));
        tracer.poll().unwrap();
    }
    tracer.stop().unwrap();
    let all = tracer.processes().unwrap().into_keys().collect();
    tracer.read(&[ThreadSet::Processes(all)]).unwrap().remove(0)
}

fn part(times: &ProcessTimes, kind: TimeKind) -> &TimePart {
    times.parts.iter().find(|part| part.kind == kind).unwrap_or_else(|| panic!("no {kind:?}: {times:#?}"))
}

fn share(times: &ProcessTimes, kinds: &[TimeKind]) -> f64 {
    times.parts.iter().filter(|part| kinds.contains(&part.kind)).map(|part| part.share).sum()
}

fn assert_adds_up(times: &ProcessTimes) {
    let sum: f64 = times.parts.iter().map(|part| part.share).sum();
    assert!((0.98..=1.02).contains(&sum), "{sum}: {times:#?}");
}

fn started(script: &str) -> Reaped {
    Reaped::spawn(Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::null()))
}

#[test]
fn the_states_of_a_thread_add_up_to_its_life() {
    if !has_bpf() {
        return;
    }
    let _uncrowded = no_crowd();
    let spins = started("while :; do :; done");
    let sleeps = started("exec sleep 60");
    let waits = started("read line");
    sleeps.wait_for_state('S');
    waits.wait_for_state('S');
    wait_until("sleep runs", || std::fs::read_to_string(format!("/proc/{}/comm", sleeps.pid())).unwrap() == "sleep\n");
    let cases = [
        (spins.pid(), &[TimeKind::User, TimeKind::Kernel, TimeKind::CpuWait][..]),
        (sleeps.pid(), &[TimeKind::Sleep]),
        (waits.pid(), &[TimeKind::Pipe]),
    ];
    for (pid, kinds) in cases {
        let mut tracer = BreakdownTracer::start(Root::live()).unwrap();
        tracer.watch(pid).unwrap();
        let times = watched(&mut tracer, Duration::from_secs(1));
        assert_adds_up(&times);
        assert_eq!(times.threads, 1);
        assert!(times.thread_seconds >= 1.0, "{times:?}");
        assert!(share(&times, kinds) > 0.95, "{times:#?}");
    }
}

#[test]
fn whoever_writes_into_a_pipe_is_waited_for() {
    if !has_bpf() {
        return;
    }
    let _uncrowded = no_crowd();
    let root = Root::live();
    let mut tracer = BreakdownTracer::start(root).unwrap();
    tracer.follow_own_children().unwrap();
    let child = started("(while sleep 0.05; do echo x; done) | while read line; do :; done");
    tracer.stop_following_own().unwrap();
    let times = watched(&mut tracer, Duration::from_secs(1));
    drop(child);
    assert_adds_up(&times);
    // The shell, the two sides, and a sleep every 50 ms.
    assert!(times.threads > 3, "{times:#?}");
    let pipe = part(&times, TimeKind::Pipe);
    let writer = pipe.by.iter().find(|by| by.name == "sh").unwrap_or_else(|| panic!("{pipe:#?}"));
    assert!(writer.share > 0.5, "{pipe:#?}");
    assert!(share(&times, &[TimeKind::Child, TimeKind::Sleep, TimeKind::Pause]) > 0.3, "{times:#?}");
}

#[test]
fn a_wait_for_fsync_names_the_device() {
    if !has_bpf() {
        return;
    }
    let _uncrowded = no_crowd();
    let folder = whyslow_testing::folder_in("/var/tmp");
    let file = folder.path().join("file");
    let mut tracer = BreakdownTracer::start(Root::live()).unwrap();
    tracer.follow_own_children().unwrap();
    let dd = format!("exec dd if=/dev/zero of={} bs=4k count=1000000 oflag=sync status=none", file.display());
    let child = started(&dd);
    tracer.stop_following_own().unwrap();
    let times = watched(&mut tracer, Duration::from_secs(1));
    drop(child);
    assert_adds_up(&times);
    let fsync = part(&times, TimeKind::Fsync);
    assert!(fsync.share > 0.05 && fsync.times > 5, "{times:#?}");
    let device = fsync.by.first().unwrap_or_else(|| panic!("{fsync:#?}"));
    assert_eq!(device.kind, "device");
    assert!(std::path::Path::new("/sys/class/block").join(&device.name).exists(), "{device:?}");
}

#[test]
fn threads_that_end_count_as_long_as_they_lived() {
    if !has_bpf() {
        return;
    }
    let _uncrowded = no_crowd();
    let mut tracer = BreakdownTracer::start(Root::live()).unwrap();
    tracer.watch(std::process::id()).unwrap();
    let before = tracer.read(&[ThreadSet::Processes(BTreeSet::from([std::process::id()]))]).unwrap().remove(0);
    let threads: Vec<_> =
        (0..4).map(|_| std::thread::spawn(|| std::thread::sleep(Duration::from_millis(300)))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    tracer.stop().unwrap();
    let times = tracer.read(&[ThreadSet::Processes(BTreeSet::from([std::process::id()]))]).unwrap().remove(0);
    assert!(times.threads >= before.threads + 4, "{} {}", before.threads, times.threads);
    let asleep =
        |times: &ProcessTimes| times.parts.iter().find(|p| p.kind == TimeKind::Sleep).map_or(0.0, |p| p.seconds);
    assert!(asleep(&times) - asleep(&before) >= 1.2, "{times:#?}");
    assert_adds_up(&times);
}

#[test]
fn a_lock_that_is_handed_on_is_charged_to_who_held_it_up() {
    if !has_bpf() {
        return;
    }
    let _uncrowded = no_crowd();
    let lock = Arc::new(Mutex::new(()));
    let end = Arc::new(AtomicBool::new(false));
    let mut tracer = BreakdownTracer::start(Root::live()).unwrap();
    tracer.watch(std::process::id()).unwrap();
    let thread = |name: &str, held: u64, pause: u64| {
        let (lock, end) = (lock.clone(), end.clone());
        let work = move || {
            while !end.load(Ordering::Relaxed) {
                let guard = lock.lock().unwrap();
                std::thread::sleep(Duration::from_micros(held));
                drop(guard);
                std::thread::sleep(Duration::from_micros(pause));
            }
        };
        std::thread::Builder::new().name(name.into()).spawn(work).unwrap()
    };
    let mut threads = vec![thread("lockhog", 100_000, 10_000)];
    threads.extend((0..4).map(|_| thread("victim", 300, 1000)));
    let times = watched(&mut tracer, Duration::from_secs(2));
    end.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let by = &part(&times, TimeKind::Lock).by;
    assert_eq!((by[0].name.as_str(), by[0].kind.as_str()), ("lockhog", "thread"), "{by:#?}");
    assert!(by[0].share > 0.7, "{by:#?}");
}
