//! Tests with processes that exit, on the live machine.

use super::iterator::TaskIterator;
use crate::root::Root;
use crate::testing::{MemoryGroup, Reaped, has_bpf, has_program, wait_for, wait_until};
use std::process::{Child, Command, id};
use whyslow_model::catalogue::ExitedChildren;
use whyslow_model::snapshot::Snapshot;

fn read(iterator: &mut TaskIterator) -> Snapshot {
    let mut out = Snapshot::default();
    iterator.read(&Root::live(), &mut out).unwrap();
    out
}

/// Returns rows of this name over three samples: a process that has just ended may be reported a sample later; none is reported
/// twice.
fn ended_rows(iterator: &mut TaskIterator, name: &str) -> Vec<ExitedChildren> {
    let rows = (0..3).flat_map(|_| read(iterator).task.exited_children.clone());
    rows.filter(|b| b.offspring.name.starts_with(name)).collect()
}

/// Sums the CPU time in nanoseconds.
fn used(rows: &[ExitedChildren]) -> f64 {
    rows.iter().map(|b| b.user.get().unwrap() + b.system.get().unwrap()).sum()
}

#[test]
fn processes_that_no_sample_saw_are_counted_by_their_surviving_ancestor() {
    if !has_bpf() {
        return;
    }
    let mut iterator = TaskIterator::load(&Root::live()).unwrap();
    assert_eq!(read(&mut iterator).task.exited_children.len(), 0, "nothing is recorded before the first sample");
    // A unique name: other tests have children too.
    let folder = whyslow_testing::folder();
    let program = folder.path().join("wsl-exited");
    std::os::unix::fs::symlink("/bin/true", &program).unwrap();
    let script = format!("i=0; while [ $i -lt 40 ]; do {}; i=$((i+1)); done", program.display());
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    let rows = ended_rows(&mut iterator, "wsl-exited");
    assert!(rows.iter().all(|b| b.offspring.parent.pid == id()), "the shell has ended as well: {rows:?}");
    assert_eq!(rows.iter().filter_map(|b| b.ended.get()).sum::<f64>(), 40.0, "each is counted once");
    assert!(used(&rows) > 40.0 * 200_000.0, "a process costs more than 200 us: {rows:?}");
}

/// The kernel shows a zombie in the root of its hierarchies, but processes that share its set of cgroups are still in their own.
#[test]
fn the_groups_of_a_zombie_are_not_those_of_others() {
    if !has_bpf() {
        return;
    }
    let Some(group) = MemoryGroup::create("zombie") else { return };
    let zombie = group.spawn("exit");
    zombie.wait_for_state('Z');
    let living = group.spawn("exec sleep 60");
    let mut iterator = wait_for("it has joined the group", || {
        let mut iterator = TaskIterator::load(&Root::live()).unwrap();
        let out = read(&mut iterator);
        let row = out.task.process.iter().find(|p| p.task.pid == living.pid())?;
        (row.command.get() == Some("sleep")).then_some(iterator)
    });
    let out = read(&mut iterator);
    let row = out.task.process.iter().find(|p| p.task.pid == living.pid()).unwrap();
    assert!(row.cgroup.get().is_some_and(|path| path.contains(group.name())), "{row:?}");
}

#[test]
fn a_process_that_was_seen_alive_has_a_last_row() {
    if !has_bpf() {
        return;
    }
    let mut iterator = TaskIterator::load(&Root::live()).unwrap();
    let child = Reaped::shell("while :; do :; done");
    let row = |s: &Snapshot| s.task.process.iter().find(|p| p.task.pid == child.pid()).cloned();
    let alive = wait_for("it is seen alive", || row(&read(&mut iterator)));
    wait_until("it has run", || cpu_ticks(child.pid()) >= 10);
    let pid = child.pid();
    drop(child);
    let ended = read(&mut iterator).task.process.iter().find(|p| p.task.pid == pid).cloned().expect("ended");
    assert_eq!((alive.task, ended.state.get()), (ended.task, Some("X")));
    let grown = ended.user.get().unwrap() - alive.user.get().unwrap();
    assert!((50_000_000..60_000_000_000).contains(&grown), "{grown} ns more");
    assert!(!read(&mut iterator).task.process.iter().any(|p| p.task.pid == pid), "reported once");
}

#[test]
fn threads_that_end_with_their_process_are_counted() {
    if !has_bpf() || !has_program("python3") {
        return;
    }
    let mut iterator = TaskIterator::load(&Root::live()).unwrap();
    read(&mut iterator);
    // Four threads that use 50 ms each and still exist when the process ends.
    let script = "import threading, time, os\n\
        def spin():\n  while time.thread_time() < .05: pass\n  time.sleep(60)\n\
        ts = [threading.Thread(target=spin, daemon=True) for _ in range(4)]\n\
        [t.start() for t in ts]\n\
        while time.process_time() < .2: time.sleep(.01)\n\
        os._exit(0)";
    assert!(Command::new("python3").args(["-c", script]).status().unwrap().success());
    let used = used(&ended_rows(&mut iterator, "python3"));
    assert!(used >= 200_000_000.0, "{used} ns of at least 200 ms");
}

#[test]
fn freeing_memory_is_counted_for_the_process_that_ended() {
    if !has_bpf() || !has_program("python3") {
        return;
    }
    let mut iterator = TaskIterator::load(&Root::live()).unwrap();
    read(&mut iterator);
    let script = "import sys; print(sys.executable)";
    let python = Command::new("python3").args(["-c", script]).output().unwrap();
    // A unique name: other tests have children too.
    let folder = whyslow_testing::folder();
    let program = folder.path().join("wsl-memory");
    std::os::unix::fs::symlink(String::from_utf8(python.stdout).unwrap().trim(), &program).unwrap();
    let all = used_by(Command::new(&program).args(["-c", "x = bytearray(300 << 20)"]).spawn().unwrap());
    let reported = used(&ended_rows(&mut iterator, "wsl-memory"));
    // Off by at most one tick.
    assert!((reported - all).abs() < 0.02 * all + 4e6, "{reported} of {all} ns");
}

/// Returns the CPU time of a child in nanoseconds, from wait4(2).
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

/// Returns the user time in /proc/PID/stat.
fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')').next().unwrap().split_ascii_whitespace().nth(11).unwrap().parse().unwrap()
}
