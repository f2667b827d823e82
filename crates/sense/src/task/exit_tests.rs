//! The ends of processes, on the live machine.

use super::iterator::TaskIterator;
use crate::bpf;
use crate::root::Root;
use std::process::{Command, id};
use std::time::Duration;
use whyslow_model::snapshot::Snapshot;

fn read(iterator: &mut TaskIterator) -> Snapshot {
    let mut out = Snapshot::default();
    iterator.read(&Root::live(), &mut out).unwrap();
    out
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
    let brief = |out: &Snapshot| out.task.brief.iter().find(|b| &*b.offspring.name == "wsl-brief").cloned();
    let row = brief(&read(&mut iterator)).expect("a row");
    assert_eq!((row.offspring.parent.pid, row.ended.get()), (id(), Some(40.0)), "the shell has ended as well");
    let used = row.user.get().unwrap() + row.system.get().unwrap();
    assert!(used > 40.0 * 50_000.0, "a process costs more than 50 us: {used} ns");
    assert_eq!(brief(&read(&mut iterator)), None, "told once");
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
    let out = read(&mut iterator);
    let row = out.task.brief.iter().find(|b| b.offspring.name.starts_with("python3")).expect("a row");
    let used = row.user.get().unwrap() + row.system.get().unwrap();
    assert!(used >= 200_000_000.0, "{used} ns of at least 200 ms");
}
