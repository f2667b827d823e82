//! Tests of processes and threads, in captured trees and on the live machine.

use super::tasks;
use crate::os::open_files_limit;
use crate::root::Root;
use crate::source::Source;
use crate::source_error::SourceError;
use crate::testing::{CapturedTree, Reaped, wait_for, wait_until};
use std::fs::File;
use whyslow_model::catalogue::{Process, Thread};
use whyslow_model::snapshot::Snapshot;

fn tree() -> CapturedTree {
    CapturedTree::with_files(&[("proc/sys/kernel/task_delayacct", "1\n")])
}

/// Writes the files of a process or thread.
fn write_task(tree: &CapturedTree, task: &str, stat: StatLine<'_>, run: u64, delay: u64) {
    tree.write(&format!("proc/{task}/stat"), &stat.text());
    tree.write(&format!("proc/{task}/schedstat"), &format!("{run} {delay} 7\n"));
    let status = "Uid:\t0\t33\t0\t0\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
    tree.write(&format!("proc/{task}/status"), status);
}

fn read(tree: &CapturedTree, source: &mut dyn Source) -> Snapshot {
    let (outcome, out) = tree.read(source);
    assert_eq!(outcome, Ok(()));
    out
}

/// The variable parts of a stat line.
#[derive(Clone, Copy)]
struct StatLine<'a> {
    name: &'a str,
    state: char,
    threads: u64,
    start: u64,
}

const SLEEPER: StatLine<'_> = StatLine { name: "sleeper", state: 'S', threads: 1, start: 900 };

impl StatLine<'_> {
    fn text(self) -> String {
        let StatLine { name, state, threads, start } = self;
        format!(
            "7 ({name}) {state} 1 7 7 0 -1 4194304 11 0 3 0 150 50 1 2 20 0 {threads} 0 {start} 8192 2 \
             0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0 0 4 0 0\n"
        )
    }
}

#[test]
fn a_process_is_read_in_full() {
    let tree = tree();
    write_task(&tree, "7", StatLine { name: "a) R 1 (b", state: 'D', ..SLEEPER }, 100, 40);
    tree.write("proc/7/io", "rchar: 1\nread_bytes: 4096\n");
    tree.write(
        "proc/7/limits",
        "Max processes             unlimited            unlimited\nMax open files  1024 4096 files\n",
    );
    tree.write("proc/7/cgroup", "4:memory:/m\n0::/web\n");
    tree.write("proc/7/wchan", "io_schedule");
    tree.write("proc/7/fd/0", "");
    tree.write("proc/7/fd/1", "");
    let out = read(&tree, &mut *tasks());
    let row = &out.task.process[0];
    assert_eq!((row.command.get(), row.state.get(), row.policy.get()), (Some("a) R 1 (b"), Some("D"), Some("NORMAL")));
    assert_eq!((row.task.pid, row.task.tid, row.task.start), (7, 7, 900));
    assert_eq!((row.user.get(), row.system.get()), (Some(1_500_000_000), Some(500_000_000)));
    assert_eq!((row.run_delay.get(), row.block_delay.get()), (Some(40), Some(40_000_000)));
    assert_eq!((row.voluntary_switches.get(), row.involuntary_switches.get()), (Some(5), Some(6)));
    assert_eq!((row.read_bytes.get(), row.write_bytes.get()), (Some(4096), None));
    assert_eq!(
        (row.open_files.get(), row.open_files_limit.get(), row.processes_limit.get()),
        (Some(2.0), Some(1024.0), None)
    );
    assert_eq!(
        (row.cgroup.get(), row.wait_channel.get(), row.user_id.get()),
        (Some("/m\n/web"), Some("io_schedule"), Some(33.0))
    );
    assert!(out.task.thread.is_empty());
}

#[test]
fn without_a_wait_channel_the_stack_says_where_a_process_is_blocked() {
    let blocked_in = |wchan: &str, stack: Option<&str>| {
        let tree = tree();
        write_task(&tree, "7", StatLine { state: 'D', ..SLEEPER }, 100, 40);
        tree.write("proc/7/wchan", wchan);
        stack.into_iter().for_each(|stack| tree.write("proc/7/stack", stack));
        read(&tree, &mut *tasks()).task.process[0].wait_channel.get().map(str::to_owned)
    };
    let stack = "[<0>] nfs_wait_bit_killable+0x1e/0x90 [nfs]\n[<0>] __wait_on_bit+0x30/0x90\n";
    assert_eq!(blocked_in("0", Some(stack)).as_deref(), Some("nfs_wait_bit_killable"));
    assert_eq!(blocked_in("io_schedule", Some(stack)).as_deref(), Some("io_schedule"));
    assert_eq!(blocked_in("0", Some("[<ffffffffffffffff>] 0xffffffffffffffff\n")), None);
    assert_eq!(blocked_in("0", None), None, "only root may read the stack");
}

#[test]
fn a_process_is_read_in_full_again_only_after_it_ran() {
    let tree = tree();
    // With PID 1 none of these four samples is a full one.
    let mut source = tasks();
    write_task(&tree, "1", SLEEPER, 100, 40);
    tree.write("proc/1/io", "rchar: 1\n");
    let calls = |out: &Snapshot| out.task.process[0].read_chars.get();
    assert_eq!(calls(&read(&tree, &mut *source)), Some(1));
    tree.write("proc/1/io", "rchar: 2\n");
    assert_eq!(calls(&read(&tree, &mut *source)), Some(1));
    write_task(&tree, "1", SLEEPER, 101, 40);
    assert_eq!(calls(&read(&tree, &mut *source)), Some(2));
    tree.write("proc/1/io", "rchar: 3\n");
    write_task(&tree, "1", StatLine { state: 'R', ..SLEEPER }, 101, 40);
    assert_eq!(calls(&read(&tree, &mut *source)), Some(3));
}

#[test]
fn without_schedstat_everything_is_read_at_every_sample() {
    let tree = tree();
    let mut source = tasks();
    for (round, schedstat) in [None, None, Some("0 0 0\n"), Some("0 0 0\n")].into_iter().enumerate() {
        write_task(&tree, "7", SLEEPER, 0, 0);
        match schedstat {
            Some(text) => tree.write("proc/7/schedstat", text),
            None => tree.remove("proc/7/schedstat"),
        }
        tree.write("proc/7/io", &format!("rchar: {round}\n"));
        let out = read(&tree, &mut *source);
        assert_eq!(out.task.process[0].run_delay.get(), None);
        assert_eq!(out.task.process[0].read_chars.get(), Some(round as u64));
    }
}

#[test]
fn without_delay_accounting_block_delay_is_absent() {
    let tree = tree();
    write_task(&tree, "7", SLEEPER, 100, 40);
    for setting in ["0\n", ""] {
        tree.write("proc/sys/kernel/task_delayacct", setting);
        assert_eq!(read(&tree, &mut *tasks()).task.process[0].block_delay.get(), None);
    }
}

#[test]
fn a_process_that_ends_while_it_is_read_has_no_row() {
    let tree = tree();
    write_task(&tree, "7", SLEEPER, 100, 40);
    write_task(&tree, "8", SLEEPER, 100, 40);
    write_task(&tree, "9", SLEEPER, 100, 40);
    tree.remove("proc/8/stat");
    tree.remove("proc/9/status");
    let out = read(&tree, &mut *tasks());
    assert_eq!(out.task.process.iter().map(|p| p.task.pid).collect::<Vec<_>>(), [7]);
}

#[test]
fn a_reused_number_is_another_process() {
    let tree = tree();
    let mut source = tasks();
    write_task(&tree, "7", SLEEPER, 100, 40);
    tree.write("proc/7/io", "rchar: 1\n");
    read(&tree, &mut *source);
    write_task(&tree, "7", StatLine { start: 5000, ..SLEEPER }, 100, 3);
    tree.remove("proc/7/io");
    let out = read(&tree, &mut *source);
    assert_eq!((out.task.process[0].task.start, out.task.process[0].run_delay.get()), (5000, Some(3)));
    assert_eq!(out.task.process[0].read_chars.get(), None);
}

#[test]
fn a_process_waits_as_long_as_all_its_threads_together() {
    let tree = tree();
    let mut source = tasks();
    let three = StatLine { threads: 3, ..SLEEPER };
    write_task(&tree, "7", three, 10, 1);
    for (tid, delay) in [(7, 1), (70, 20), (71, 300)] {
        write_task(&tree, &format!("7/task/{tid}"), three, 10, delay);
    }
    let out = read(&tree, &mut *source);
    let row = &out.task.process[0];
    assert_eq!((row.run_delay.get(), row.voluntary_switches.get()), (Some(321), Some(15)));
    assert_eq!(out.task.thread.iter().map(|t| t.task.tid).collect::<Vec<_>>(), [7, 70, 71]);
    assert_eq!(out.task.thread[2].run_delay.get(), Some(300));

    tree.remove("proc/7/task/71");
    write_task(&tree, "7", StatLine { threads: 2, ..SLEEPER }, 10, 1);
    assert_eq!(read(&tree, &mut *source).task.process[0].run_delay.get(), Some(321));
    tree.remove("proc/7/task");
    write_task(&tree, "7", SLEEPER, 12, 2);
    let out = read(&tree, &mut *source);
    assert_eq!((out.task.process[0].run_delay.get(), out.task.thread.len()), (Some(322), 0));
}

#[test]
fn lock_waits_of_a_thread_are_read_once_it_has_run() {
    let tree = tree();
    let mut source = tasks();
    let two = StatLine { threads: 2, ..SLEEPER };
    let write = |run: u64, moves: u64, expected: u64| {
        for task in ["7", "7/task/7", "7/task/70"] {
            write_task(&tree, task, two, run, 0);
            tree.write(&format!("proc/{task}/sched"), &format!("se.nr_migrations   :   {moves}\n"));
            let call = libc::SYS_futex;
            tree.write(
                &format!("proc/{task}/syscall"),
                &format!("{call} 0x7f10 0x80 {expected:#x} 0x0 0x0 0x0 0x0 0x0\n"),
            );
        }
    };
    let waits = |out: &Snapshot| out.task.thread.iter().map(|t| t.lock_wait.get()).collect::<Vec<_>>();
    write(100, 3, 2);
    let out = read(&tree, &mut *source);
    assert_eq!((waits(&out), out.task.process[0].migrations.get()), (vec![None, None], Some(6)));
    write(101, 4, 2);
    let out = read(&tree, &mut *source);
    assert_eq!((waits(&out), out.task.process[0].migrations.get()), (vec![Some(1.0), Some(1.0)], Some(8)));
    write(102, 4, 7);
    assert_eq!(waits(&read(&tree, &mut *source)), [Some(0.0), Some(0.0)]);
}

#[test]
fn a_process_that_waits_for_asynchronous_io_is_found_in_its_call() {
    let tree = tree();
    let mut source = tasks();
    let call = libc::SYS_io_getevents;
    let mut place = |state: char, run: u64, bytes: u64| {
        write_task(&tree, "7", StatLine { state, ..SLEEPER }, run, 0);
        tree.write("proc/7/io", &format!("read_bytes: {bytes}\nwrite_bytes: 0\n"));
        tree.write("proc/7/syscall", &format!("{call} 0x7f10 0x1 0x1 0x7ffe 0x0 0x0 0x0 0x0\n"));
        read(&tree, &mut *source).task.process[0].wait_channel.get().map(str::to_owned)
    };
    assert_eq!(place('S', 100, 0), None);
    assert_eq!(place('S', 101, 4096).as_deref(), Some("io_getevents"));
    assert_eq!(place('S', 101, 4096).as_deref(), Some("io_getevents"), "a disk can take longer than a sample");
    assert_eq!(place('R', 102, 8192), None);
    assert_eq!(place('S', 103, 8192), None, "without I/O the call is not read");
}

#[test]
fn too_many_threads_are_left_out_and_reported() {
    let tree = tree();
    write_task(&tree, "7", StatLine { threads: 1_000_000, ..SLEEPER }, 10, 1);
    write_task(&tree, "8", SLEEPER, 10, 1);
    let (outcome, out) = tree.read(&mut *tasks());
    assert!(matches!(outcome, Err(SourceError::Failed(why)) if why.contains("threads of 1 process:")));
    assert_eq!(out.task.process.iter().map(|p| p.run_delay.get()).collect::<Vec<_>>(), [None, Some(1)]);
}

#[test]
fn a_tree_without_proc_is_absent() {
    let (outcome, _) = CapturedTree::with_files(&[]).read(&mut *tasks());
    assert!(matches!(outcome, Err(SourceError::Absent(_))), "{outcome:?}");
}

fn live(source: &mut dyn Source) -> Snapshot {
    let mut out = Snapshot::default();
    match source.read(&Root::live(), &mut out) {
        Ok(()) | Err(SourceError::NotPermitted { .. }) => out,
        Err(miss) => panic!("{miss:?}"),
    }
}

fn process(snapshot: &Snapshot, pid: u32) -> &Process {
    snapshot.task.process.iter().find(|p| p.task.pid == pid).unwrap()
}

#[test]
fn this_process_is_seen_as_it_is() {
    let (stop, wait) = std::sync::mpsc::channel::<()>();
    let helper = std::thread::Builder::new().name("wsl-helper".into()).spawn(move || wait.recv()).unwrap();
    let files: Vec<File> = (0..20).map(|_| File::open("/dev/null").unwrap()).collect();

    let out = live(&mut *tasks());
    let me = process(&out, std::process::id());
    assert_eq!(me.open_files_limit.get(), Some(open_files_limit() as f64));
    assert!(me.open_files.get().unwrap() >= files.len() as f64);
    assert!(me.threads.get().unwrap() >= 2.0);
    assert!(me.rss.get().unwrap() > 100_000.0);
    assert_eq!(me.kernel_thread.get(), Some(0.0));
    // SAFETY: geteuid takes nothing and cannot fail.
    assert_eq!(me.user_id.get(), Some(f64::from(unsafe { libc::geteuid() })));
    let threads: Vec<&Thread> = out.task.thread.iter().filter(|t| t.task.pid == me.task.pid).collect();
    assert!(threads.iter().any(|t| t.command.get() == Some("wsl-helper")));
    drop(stop);
    let _ = helper.join().unwrap();
}

#[test]
fn the_user_time_of_a_busy_child_grows() {
    let child = Reaped::shell("while :; do :; done");
    let mut source = tasks();
    let mut user = || process(&live(&mut *source), child.pid()).user.get().unwrap();
    let before = user();
    wait_until("its user time grows", || user() > before);
}

#[test]
fn a_dead_child_is_a_zombie_until_waited_for() {
    let child = Reaped::shell("exit 0");
    let mut source = tasks();
    let row = wait_for("the child has ended", || {
        Some(process(&live(&mut *source), child.pid()).clone()).filter(|row| row.state.get() == Some("Z"))
    });
    assert_eq!((row.rss.get(), row.open_files.get()), (Some(0.0), None));
    let pid = child.pid();
    drop(child);
    assert!(live(&mut *source).task.process.iter().all(|p| p.task.pid != pid));
}
