//! Tests on the live kernel: threads of this test wait for known times and reasons.

use super::{INFO, SleepTracer};
use crate::source::{Source, loaded};
use crate::testing::{attached, no_crowd, own_tid, read, skip, wait_until_state};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::Duration;
use whyslow_model::catalogue::{LockHolder, Sleep};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Counter;

const WAIT: Duration = Duration::from_millis(200);
/// Shorter than the wait, because a thread that is about to wait may be preempted on a busy machine.
const MIN_WAITED: Duration = Duration::from_millis(100);

fn mine(out: &Snapshot) -> Option<&Sleep> {
    out.task.sleep.iter().find(|row| row.task.pid == std::process::id())
}

/// Returns the nanoseconds by which `work` increases a metric of this process.
fn grown(source: &mut dyn Source, metric: fn(&Sleep) -> Counter, work: impl FnOnce()) -> Duration {
    let of = |out: &Snapshot| mine(out).and_then(|row| metric(row).get()).unwrap_or(0);
    let before = of(&read(source));
    work();
    Duration::from_nanos(of(&read(source)) - before)
}

#[test]
fn each_wait_is_counted_by_its_reason() {
    let _uncrowded = no_crowd();
    let Some(mut source) = attached(loaded(INFO, SleepTracer::load, SleepTracer::read)) else { return };
    let timer = grown(&mut *source, |row| row.timer, || sleep(WAIT));
    assert!(timer >= WAIT, "{timer:?}");
    let pipe = grown(
        &mut *source,
        |row| row.pipe,
        || {
            let (mut from, mut to) = std::io::pipe().unwrap();
            waits(move || from.read_exact(&mut [0]).unwrap(), || to.write_all(b"x").unwrap());
        },
    );
    assert!(pipe >= MIN_WAITED, "{pipe:?}");
    let network = grown(
        &mut *source,
        |row| row.network,
        || {
            let (mut from, mut to) = std::os::unix::net::UnixStream::pair().unwrap();
            waits(move || from.read_exact(&mut [0]).unwrap(), || to.write_all(b"x").unwrap());
        },
    );
    assert!(network >= MIN_WAITED, "{network:?}");
    let futex = grown(
        &mut *source,
        |row| row.futex,
        || {
            let (work, queue) = channel();
            waits(move || queue.recv().unwrap(), || work.send(()).unwrap());
        },
    );
    assert!(futex >= MIN_WAITED, "{futex:?}");
}

/// Has a new thread wait for [`WAIT`], until it is released.
fn waits(wait: impl FnOnce() + Send + 'static, release: impl FnOnce()) {
    let (say, said) = channel();
    let waiter = spawn(move || {
        say.send(own_tid()).unwrap();
        wait();
    });
    wait_until_state(&format!("/proc/self/task/{}", said.recv().unwrap()), 'S');
    sleep(WAIT);
    release();
    waiter.join().unwrap();
}

#[test]
fn the_holder_of_a_lock_is_the_thread_that_wakes_the_waiter() {
    let _uncrowded = no_crowd();
    let Some(mut source) = attached(loaded(INFO, SleepTracer::load, SleepTracer::read)) else { return };
    let me = own_tid();
    let kept = |out: &Snapshot| {
        let mine = |row: &&LockHolder| row.task.tid == me;
        out.task.lock_holder.iter().find(mine).and_then(|row| row.kept_waiting.get()).unwrap_or(0)
    };
    let lock = Arc::new(Mutex::new(()));
    let waited = grown(
        &mut *source,
        |row| row.lock,
        || {
            let held = lock.lock().unwrap();
            let theirs = lock.clone();
            waits(move || drop(theirs.lock()), || drop(held));
        },
    );
    let out = read(&mut *source);
    assert!(waited >= MIN_WAITED, "{waited:?}");
    assert!(Duration::from_nanos(kept(&out)) >= MIN_WAITED, "{:?}", out.task.lock_holder);
    let waits: u64 = out.processor.run_queue.iter().filter_map(|row| row.latency.count()).sum();
    let own = mine(&out).unwrap();
    let own_waits = own.run_queue_waits.get().unwrap();
    assert!(waits >= own_waits && own_waits > 0, "{waits} {own_waits}");
    // Threads of other tests wait at the same time.
    assert!(own.run_queue_latency.count().unwrap().abs_diff(own_waits) < own_waits / 2 + 10, "{own:?}");
}

#[test]
fn a_lock_that_is_handed_on_is_charged_to_who_held_it_up() {
    let _uncrowded = no_crowd();
    let Some(mut source) = attached(loaded(INFO, SleepTracer::load, SleepTracer::read)) else { return };
    let (lock, end) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
    let thread = |held: u64, pause: u64| {
        let (lock, end) = (lock.clone(), end.clone());
        let (say, said) = channel();
        let work = move || {
            say.send(own_tid()).unwrap();
            while !end.load(Ordering::Relaxed) {
                let guard = lock.lock().unwrap();
                sleep(Duration::from_micros(held));
                drop(guard);
                sleep(Duration::from_micros(pause));
            }
        };
        (spawn(work), said.recv().unwrap())
    };
    let (hog, hog_tid) = thread(100_000, 10_000);
    let others: Vec<_> = (0..4).map(|_| thread(300, 1000).0).collect();
    sleep(Duration::from_secs(2));
    let out = read(&mut *source);
    end.store(true, Ordering::Relaxed);
    [hog].into_iter().chain(others).for_each(|thread| thread.join().unwrap());
    let mine = out.task.lock_holder.iter().filter(|row| row.task.pid == std::process::id());
    let kept: Vec<(u32, u64)> = mine.filter_map(|row| Some((row.task.tid, row.kept_waiting.get()?))).collect();
    let of = |tid: u32| kept.iter().filter(|(holder, _)| *holder == tid).map(|(_, ns)| *ns).sum::<u64>() as f64;
    let all: u64 = kept.iter().map(|(_, ns)| *ns).sum();
    assert!(of(hog_tid) > 0.7 * all as f64, "{hog_tid}: {kept:?}");
}

#[test]
fn a_change_of_affinity_migrates_a_running_thread() {
    let _uncrowded = no_crowd();
    let Some(mut source) = attached(loaded(INFO, SleepTracer::load, SleepTracer::read)) else { return };
    // SAFETY: all-zero bits are an empty set, and the calls are given its size.
    let moved = unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed);
        let cpus: Vec<usize> = (0..1024).filter(|cpu| libc::CPU_ISSET(*cpu, &allowed)).collect();
        if cpus.len() < 2 {
            return skip("needs two CPUs");
        }
        let moves = |out: &Snapshot| mine(out).and_then(|row| row.moved_running.get()).unwrap_or(0);
        let before = moves(&read(&mut *source));
        for turn in 0..20 {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpus[turn % 2], &mut one);
            libc::sched_setaffinity(0, size_of_val(&one), &one);
        }
        let moved = moves(&read(&mut *source)) - before;
        libc::sched_setaffinity(0, size_of_val(&allowed), &allowed);
        moved
    };
    assert!(moved >= 19, "{moved}");
}
