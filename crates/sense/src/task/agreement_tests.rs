//! Tests on the live machine: both BPF programs, the one that walks the tasks and the iterator, agree with the files under /proc
//! field by field.

use super::iterator::TaskIterator;
use super::proc_reader::ProcReader;
use crate::os::{page_size, tick_ns};
use crate::root::Root;
use crate::testing::{Reaped, crowd, has_bpf, no_crowd, wait_until};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::process::{Command, Stdio};
use whyslow_model::catalogue::{Family, Metric, Process, Thread, Unit};
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Value;

/// Metrics that are in no file, or not in the first reading of the files.
const NOT_COMPARED: [&str; 4] = ["swap_delay", "reclaim_delay", "lock_wait", "mappings"];

/// Starts a script, waits until it prints `ready`, and stops it, so that its values do not change between two readings.
fn stopped(script: &str) -> Reaped {
    let mut command = Command::new("sh");
    let mut child = Reaped::spawn(command.args(["-c", script]).stdout(Stdio::piped()));
    child.0.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    child.signal(libc::SIGSTOP);
    child.wait_for_state('T');
    child
}

fn rows<F: Family<Key = TaskKey>>(rows: &[F]) -> BTreeMap<TaskKey, &F> {
    rows.iter().map(|row| (*row.key(), row)).collect()
}

/// Returns the program that walks the tasks, in one run and in many, and the iterator.
fn readers() -> [TaskIterator; 3] {
    let mut iterator = TaskIterator::load(&Root::live()).unwrap();
    iterator.records.disable_walks();
    [walking(None), walking(Some(7)), iterator]
}

/// Returns the program that walks the tasks, if the kernel supports it.
fn walking(span: Option<u32>) -> TaskIterator {
    let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
    let name = b"bpf_iter_num_new\0";
    let supported = types.windows(name.len()).any(|bytes| bytes == name);
    let mut iterator = TaskIterator::load(&Root::live()).unwrap();
    if let Some(span) = span {
        iterator.records.set_batch_size(span).unwrap();
    }
    iterator.read(&Root::live(), &mut Snapshot::default()).unwrap();
    assert_eq!(iterator.records.walks(), supported);
    iterator
}

/// Reads with BPF and from the files, one right after the other.
fn both(iterator: &mut TaskIterator) -> (Snapshot, Snapshot) {
    let iterated = iterated(iterator);
    let mut read = Snapshot::default();
    // Some processes may not be read.
    let _ = ProcReader::default().read(&Root::live(), &mut read);
    (iterated, read)
}

fn iterated(iterator: &mut TaskIterator) -> Snapshot {
    let mut snapshot = Snapshot::default();
    iterator.read(&Root::live(), &mut snapshot).unwrap();
    snapshot
}

fn differences<F: Family<Key = TaskKey>>(a: &F, b: &F) -> Vec<String> {
    let metrics = F::INFO.metrics.iter().enumerate().filter(|(_, m)| !NOT_COMPARED.contains(&m.name));
    metrics
        .filter_map(|(column, metric)| {
            let (x, y) = (a.value(column)?, b.value(column)?);
            (!agree(metric, &x, &y)).then(|| format!("{}: iterator {x:?}, files {y:?}", metric.name))
        })
        .collect()
}

/// Whether two values agree. The files count CPU time in whole ticks. The kernel keeps parts of the resident memory in per-CPU
/// counters, up to a batch (lib/percpu_counter.c), and only the files include these remainders.
fn agree(metric: &Metric, a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Counter(a), Value::Counter(b)) if metric.unit == Unit::Nanoseconds => {
            a.get().zip(b.get()).map(|(a, b)| a.abs_diff(b) < tick_ns()).unwrap_or(a == b)
        }
        (Value::Gauge(a), Value::Gauge(b)) if ["rss_anon", "rss_file", "rss_shmem", "swap"].contains(&metric.name) => {
            let cpus = std::thread::available_parallelism().unwrap().get() as f64;
            let remainder = cpus * (2.0 * cpus).max(32.0) * page_size() as f64;
            a.get().zip(b.get()).map(|(a, b)| (a - b).abs() <= remainder).unwrap_or(a == b)
        }
        (a, b) => a == b,
    }
}

#[test]
fn a_stopped_process_reads_the_same_both_ways() {
    if !has_bpf() {
        return;
    }
    let _uncrowded = no_crowd();
    let busy = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; read line < /etc/passwd; echo ready; exec sleep 60";
    let still = stopped(busy);
    for mut iterator in readers() {
        let (iterated, read) = both(&mut iterator);
        let of = |s: &Snapshot| s.task.process.iter().find(|p| p.task.pid == still.pid()).cloned().unwrap();
        let (a, b) = (of(&iterated), of(&read));
        assert_eq!(a.task, b.task);
        assert_eq!(differences::<Process>(&a, &b), Vec::<String>::new());
        assert!(a.user.get().unwrap() > 0 && a.read_chars.get().unwrap() > 0, "{a:?}");
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", still.pid())).unwrap();
        // The kernel appends this page to the list of every process.
        let mappings = maps.lines().filter(|line| !line.ends_with("[vsyscall]")).count();
        assert_eq!(a.mappings.get(), Some(mappings as f64));
        assert!(a.page_tables.get().unwrap() > 0.0, "{a:?}");
        assert!(a.cgroup.get().is_some() && a.open_files.get().unwrap() >= 3.0, "{a:?}");
        // The kernel rounds `sleep`'s few pages to zero; a test program has more than its per-CPU counters can hide.
        let own = iterated.task.process.iter().find(|p| p.task.pid == std::process::id()).unwrap();
        assert!(own.rss.get().unwrap() > 0.0, "{own:?}");
    }
}

#[test]
fn every_process_and_thread_is_found_both_ways() {
    if !has_bpf() {
        return;
    }
    let _uncrowded = no_crowd();
    for mut iterator in readers() {
        let (before, read) = both(&mut iterator);
        let after = iterated(&mut iterator);
        // Counters change between the readings; these properties rarely do.
        let fixed = |p: &Process| {
            let names = (p.cgroup.get().map(str::to_owned), p.policy.get().map(str::to_owned));
            let limits = (p.open_files_limit, p.open_files_hard_limit, p.processes_limit);
            (names, p.parent, p.nice, p.user_id, p.kernel_thread, limits)
        };
        let [before, read, after] = [&before, &read, &after].map(|s| (rows(&s.task.process), rows(&s.task.thread)));
        // A process that is exiting no longer has an address space, and its files disappear or become empty one by one. A process
        // that has exited is still reported once.
        let is_alive = |p: &Process| {
            let has_memory = p.virtual_size.get() != Some(0.0) || p.kernel_thread.get() == Some(1.0);
            has_memory && !matches!(p.state.get(), Some("X" | "Z"))
        };
        // Processes that start, exit or call exec(2) between the readings differ.
        let lasts =
            |key: &TaskKey, row: &Process| after.0.get(key).is_some_and(|p| is_alive(p) && fixed(p) == fixed(row));
        let lasting: Vec<_> = before.0.iter().filter(|(key, row)| is_alive(row) && lasts(key, row)).collect();
        assert!(!lasting.is_empty());
        let odd = lasting.iter().find(|(key, row)| read.0.get(key).is_none_or(|p| fixed(p) != fixed(row)));
        let other = odd.map(|(key, _)| (read.0.get(key), after.0.get(key)));
        assert_eq!(odd, None, "in the files, and afterwards: {other:#?}");
        let pids: BTreeSet<u32> = lasting.iter().map(|(key, _)| key.pid).collect();
        let threads: Vec<_> =
            before.1.keys().filter(|key| pids.contains(&key.pid) && after.1.contains_key(key)).collect();
        assert!(!threads.is_empty());
        assert_eq!(threads.iter().find(|key| !read.1.contains_key(key)), None);
    }
}

#[test]
fn a_parked_thread_reads_the_same_both_ways() {
    if !has_bpf() {
        return;
    }
    let _uncrowded = no_crowd();
    let (send, wait) = std::sync::mpsc::channel::<()>();
    let parked = std::thread::Builder::new().name("wsl-parked".into()).spawn(move || wait.recv()).unwrap();
    wait_until("the thread is parked", || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let mut parked = tasks.filter(|t| std::fs::read(t.path().join("comm")).is_ok_and(|c| c == b"wsl-parked\n"));
        let stat = parked.next().and_then(|t| std::fs::read_to_string(t.path().join("stat")).ok());
        stat.is_some_and(|stat| stat.contains(") S "))
    });
    let of = |s: &Snapshot| s.task.thread.iter().find(|t| t.command.get() == Some("wsl-parked")).cloned().unwrap();
    let found = readers().map(|mut iterator| both(&mut iterator)).map(|(iterated, read)| (of(&iterated), of(&read)));
    drop(send);
    let _ = parked.join();
    for (a, b) in found {
        assert_eq!((a.task, differences::<Thread>(&a, &b)), (b.task, Vec::<String>::new()));
    }
}

/// If a walk has no room for all threads, the iterator reads them, completely.
#[test]
fn all_threads_are_read_even_if_a_walk_has_no_room_for_them() {
    if !has_bpf() {
        return;
    }
    let _alone = crowd();
    const MANY: usize = 8_200;
    let mut walks = walking(None);
    let script = "import threading, sys\n\
                  threading.stack_size(65536)\n\
                  for i in range(8200): threading.Thread(target=lambda: sys.stdin.read(), daemon=True).start()\n\
                  print('ready', flush=True)\n\
                  threading.Event().wait()";
    let mut command = Command::new("python3");
    command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = Reaped::spawn(&mut command);
    let still = stopped("echo ready; exec sleep 60");
    let mut read = || {
        let mut s = Snapshot::default();
        walks.read(&Root::live(), &mut s).unwrap();
        s.task
    };
    let few = read();
    let mut line = [0; 6];
    child.0.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    for _ in 0..2 {
        let all = read();
        let of_child = all.thread.iter().filter(|thread| thread.task.pid == child.pid()).count();
        assert_eq!(of_child, MANY + 1);
        let row = |rows: &[Process]| rows.iter().find(|row| row.task.pid == still.pid()).cloned();
        assert!(row(&all.process).is_some() && row(&all.process) == row(&few.process));
    }
}

#[test]
fn a_process_is_followed_as_it_stops_continues_and_is_changed_by_others() {
    if !has_bpf() {
        return;
    }
    let _uncrowded = no_crowd();
    readers().into_iter().for_each(a_stopped_process_is_followed);
}

fn a_stopped_process_is_followed(mut iterator: TaskIterator) {
    let still = stopped("echo ready; while :; do :; done");
    let pid = still.pid();
    let mut rows_now = || {
        let mut s = Snapshot::default();
        iterator.read(&Root::live(), &mut s).unwrap();
        s.task.process.iter().filter(|p| p.task.pid == pid).cloned().collect::<Vec<_>>()
    };
    let first = rows_now();
    assert_eq!((first.len(), first[0].state.get()), (1, Some("T")));
    assert_eq!(rows_now(), first);

    // SAFETY: setpriority(2) touches no memory of ours.
    assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, pid, 7) }, 0);
    let nice: Vec<_> = (0..8).filter_map(|_| rows_now()[0].nice.get()).collect();
    assert!(nice.contains(&7.0) && nice.len() == 8, "{nice:?}");

    still.signal(libc::SIGCONT);
    wait_until("it has run", || rows_now()[0].user.get() > first[0].user.get());
    still.signal(libc::SIGKILL);
    wait_until("it is a zombie", || rows_now()[0].state.get() == Some("Z"));
}
