//! The ends of processes, on the live machine.

use super::iterator::TaskIterator;
use crate::bpf;
use crate::root::Root;
use std::process::{Child, Command, id};
use std::time::Duration;
use whyslow_model::catalogue::Brief;
use whyslow_model::snapshot::Snapshot;

fn read(iterator: &mut TaskIterator) -> Snapshot {
    let mut out = Snapshot::default();
    iterator.read(&Root::live(), &mut out).unwrap();
    out
}

/// Rows of this name over three samples: what has just ended may be told a sample later, and what was told before is not
/// told again.
fn briefs(iterator: &mut TaskIterator, name: &str) -> Vec<Brief> {
    let rows = (0..3).flat_map(|_| read(iterator).task.brief);
    rows.filter(|b| b.offspring.name.starts_with(name)).collect()
}

/// Nanoseconds.
fn used(rows: &[Brief]) -> f64 {
    rows.iter().map(|b| b.user.get().unwrap() + b.system.get().unwrap()).sum()
}

#[test]
fn what_no_sample_saw_is_told_by_its_surviving_ancestor() {
    if bpf::is_out_of_reach() {
        return;
    }
    let mut iterator = TaskIterator::load(&Root::live()).unwrap();
    assert_eq!(read(&mut iterator).task.brief.len(), 0, "nothing is watched before the first sample");
    // A name of its own: other tests have children too.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("wsl-brief");
    std::os::unix::fs::symlink("/bin/true", &program).unwrap();
    let script = format!("i=0; while [ $i -lt 40 ]; do {}; i=$((i+1)); done", program.display());
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    let rows = briefs(&mut iterator, "wsl-brief");
    assert!(rows.iter().all(|b| b.offspring.parent.pid == id()), "the shell has ended as well: {rows:?}");
    assert_eq!(rows.iter().filter_map(|b| b.ended.get()).sum::<f64>(), 40.0, "each is told once");
    assert!(used(&rows) > 40.0 * 200_000.0, "a process costs more than 200 us: {rows:?}");
}

#[test]
fn who_was_seen_alive_has_a_last_row() {
    if bpf::is_out_of_reach() {
        return;
    }
    let mut iterator = TaskIterator::load(&Root::live()).unwrap();
    let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let pid = child.id();
    let row = |s: &Snapshot| s.task.process.iter().find(|p| p.task.pid == pid).cloned();
    let alive = row(&read(&mut iterator));
    std::thread::sleep(Duration::from_millis(300));
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = row(&read(&mut iterator));
    let (alive, ended) = (alive.expect("alive"), ended.expect("ended"));
    assert_eq!((alive.task, ended.state.get()), (ended.task, Some("X")));
    let grown = ended.user.get().unwrap() - alive.user.get().unwrap();
    assert!((20_000_000..2_000_000_000).contains(&grown), "{grown} ns more");
    assert!(!read(&mut iterator).task.process.iter().any(|p| p.task.pid == pid), "told once");
}

#[test]
fn threads_that_end_with_their_process_are_counted() {
    if bpf::is_out_of_reach() {
        return;
    }
    let mut iterator = TaskIterator::load(&Root::live()).unwrap();
    read(&mut iterator);
    // A program of four threads that each use 50 ms and are still there when it ends: all have to be charged.
    let script = "import threading, time, os\n\
        def spin():\n  while time.thread_time() < .05: pass\n  time.sleep(60)\n\
        ts = [threading.Thread(target=spin, daemon=True) for _ in range(4)]\n\
        [t.start() for t in ts]\n\
        while time.process_time() < .2: time.sleep(.01)\n\
        os._exit(0)";
    let Ok(status) = Command::new("python3").args(["-c", script]).status() else {
        eprintln!("skipped: no python3");
        return;
    };
    assert!(status.success());
    let used = used(&briefs(&mut iterator, "python3"));
    assert!(used >= 200_000_000.0, "{used} ns of at least 200 ms");
}

#[test]
fn giving_memory_back_is_charged_to_who_ended() {
    if bpf::is_out_of_reach() {
        return;
    }
    let mut iterator = TaskIterator::load(&Root::live()).unwrap();
    read(&mut iterator);
    let script = "import sys; print(sys.executable)";
    let Ok(python) = Command::new("python3").args(["-c", script]).output() else {
        eprintln!("skipped: no python3");
        return;
    };
    // A name of its own: other tests have children too.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("wsl-memory");
    std::os::unix::fs::symlink(String::from_utf8(python.stdout).unwrap().trim(), &program).unwrap();
    let all = used_by(Command::new(&program).args(["-c", "x = bytearray(300 << 20)"]).spawn().unwrap());
    let told = used(&briefs(&mut iterator, "wsl-memory"));
    // Off by a tick at most.
    assert!((told - all).abs() < 0.02 * all + 4e6, "{told} of {all} ns");
}

/// Nanoseconds that a child used in all, as its parent learns when it waits for it (wait4(2)).
fn used_by(child: Child) -> f64 {
    // SAFETY: all-zero bytes make an rusage, which the call is given to fill; the child is ours and not waited for.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert!(libc::wait4(child.id() as i32, std::ptr::null_mut(), 0, &mut usage) > 0);
        usage
    };
    let ns = |t: libc::timeval| t.tv_sec as f64 * 1e9 + t.tv_usec as f64 * 1e3;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}
