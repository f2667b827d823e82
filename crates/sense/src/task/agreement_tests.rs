//! The BPF programs, both ways of having them go through the tasks, and the files under /proc tell the same, field by field,
//! on the live machine.

use super::crowd::{crowd, no_crowd};
use super::iterator::TaskIterator;
use super::proc_reader::Files;
use crate::bpf;
use crate::os::{page_size, tick_ns};
use crate::root::Root;
use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use whyslow_model::catalogue::{Family, Metric, Process, Thread, Unit};
use whyslow_model::key::TaskKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Value;

/// Metrics that no file tells, and what a reading of the files tells later than the first.
const OF_ONE_WAY_ONLY: [&str; 3] = ["swap_delay", "reclaim_delay", "lock_wait"];

/// A process that is stopped, so that its figures stand still while they are read twice.
struct Still(Child);

impl Still {
    fn new(script: &str) -> Self {
        let child = Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(400));
        signal(&child, libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(100));
        Self(child)
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal(child: &Child, number: i32) {
    // SAFETY: kill(2) touches no memory of ours; the child is ours and has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, number) }, 0);
}

fn rows<F: Family<Key = TaskKey>>(rows: &[F]) -> BTreeMap<TaskKey, &F> {
    rows.iter().map(|row| (*row.key(), row)).collect()
}

/// The program that goes through the tasks itself, in one run and in many, and the one that is called for each.
fn ways() -> [TaskIterator; 3] {
    let mut called = TaskIterator::load(&Root::live()).unwrap();
    called.records.keep_from_walking();
    [walking(None), walking(Some(7)), called]
}

/// One that goes through the tasks itself, where the kernel lets it.
fn walking(span: Option<u32>) -> TaskIterator {
    let types = std::fs::read("/sys/kernel/btf/vmlinux").unwrap();
    let name = b"bpf_iter_num_new\0";
    let walks = types.windows(name.len()).any(|bytes| bytes == name);
    let mut iterator = TaskIterator::load(&Root::live()).unwrap();
    if let Some(span) = span {
        iterator.records.set_span(span).unwrap();
    }
    iterator.read(&Root::live(), &mut Snapshot::default()).unwrap();
    assert_eq!(iterator.records.walks(), walks, "it walks where the kernel lets it");
    iterator
}

/// Both readings, close to one another.
fn both(mut iterator: TaskIterator) -> (Snapshot, Snapshot) {
    let (mut iterated, mut read) = (Snapshot::default(), Snapshot::default());
    iterator.read(&Root::live(), &mut iterated).unwrap();
    // What some guarded process hides is of no interest here.
    let _ = Files::default().read(&Root::live(), &mut read);
    (iterated, read)
}

/// The metrics in which two rows of one task differ.
fn differences<F: Family<Key = TaskKey>>(a: &F, b: &F) -> Vec<String> {
    let metrics = F::INFO.metrics.iter().enumerate().filter(|(_, m)| !OF_ONE_WAY_ONLY.contains(&m.name));
    metrics
        .filter_map(|(column, metric)| {
            let (x, y) = (a.value(column)?, b.value(column)?);
            (!agree(metric, &x, &y)).then(|| format!("{}: iterator {x:?}, files {y:?}", metric.name))
        })
        .collect()
}

/// Whether two readings are as close as can be. The files count processor time in whole ticks. The parts of resident
/// memory are kept per processor, up to a batch (lib/percpu_counter.c), and only the files add these remainders up.
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
fn a_process_that_stands_still_is_the_same_both_ways() {
    if bpf::is_out_of_reach() {
        return;
    }
    let _uncrowded = no_crowd();
    let busy =
        "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; cat /proc/self/stat /etc/passwd; : > /dev/null; sleep 60";
    let still = Still::new(busy);
    for iterator in ways() {
        let (iterated, read) = both(iterator);
        let of = |s: &Snapshot| s.task.process.iter().find(|p| p.task.pid == still.0.id()).cloned().unwrap();
        let (a, b) = (of(&iterated), of(&read));
        assert_eq!(a.task, b.task);
        assert_eq!(differences::<Process>(&a, &b), Vec::<String>::new());
        assert!(a.user.get().unwrap() > 0 && a.read_chars.get().unwrap() > 0 && a.rss.get().unwrap() > 0.0, "{a:?}");
        assert!(a.cgroup.get().is_some() && a.open_files.get().unwrap() >= 3.0, "{a:?}");
    }
}

#[test]
fn every_process_and_thread_is_found_both_ways() {
    if bpf::is_out_of_reach() {
        return;
    }
    let _uncrowded = no_crowd();
    ways().into_iter().for_each(every_one_is_found);
}

fn every_one_is_found(iterator: TaskIterator) {
    let (iterated, read) = both(iterator);
    let (a, b) = (rows(&iterated.task.process), rows(&read.task.process));
    let common = a.keys().filter(|key| b.contains_key(key)).count();
    // Processes come and go between the readings.
    assert!(common + 20 >= a.len() && common + 20 >= b.len(), "{} and {}, {common} of them common", a.len(), b.len());
    // What the machine does meanwhile changes counters; what a process is does not.
    let fixed = |p: &Process| {
        let names = (p.cgroup.get().map(str::to_owned), p.policy.get().map(str::to_owned));
        (names, p.parent, p.nice, p.user_id, p.kernel_thread, p.open_files_limit, p.processes_limit)
    };
    let odd: Vec<_> =
        a.iter().filter(|(key, row)| b.get(key).is_some_and(|other| fixed(row) != fixed(other))).collect();
    assert!(odd.len() <= 2, "{odd:#?}");
    let (a, b) = (rows::<Thread>(&iterated.task.thread), rows::<Thread>(&read.task.thread));
    let common = a.keys().filter(|key| b.contains_key(key)).count();
    assert!(common > 0 && common + 20 >= a.len(), "{} and {}, {common} of them common", a.len(), b.len());
}

#[test]
fn threads_of_a_parked_process_are_the_same_both_ways() {
    if bpf::is_out_of_reach() {
        return;
    }
    let _uncrowded = no_crowd();
    let (send, wait) = std::sync::mpsc::channel::<()>();
    let parked = std::thread::Builder::new().name("wsl-parked".into()).spawn(move || wait.recv()).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let of = |s: &Snapshot| s.task.thread.iter().find(|t| t.command.get() == Some("wsl-parked")).cloned().unwrap();
    let found = ways().map(both).map(|(iterated, read)| (of(&iterated), of(&read)));
    drop(send);
    let _ = parked.join();
    for (a, b) in found {
        assert_eq!((a.task, differences::<Thread>(&a, &b)), (b.task, Vec::<String>::new()));
    }
}

/// More threads than a walk has room for, so that they are read the other way, and all of them: none counts as known.
#[test]
fn none_is_missed_where_there_are_too_many() {
    if bpf::is_out_of_reach() {
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
    let mut child = Still(command.spawn().unwrap());
    let still = Still::new("sleep 60");
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
        let of_child = all.thread.iter().filter(|thread| thread.task.pid == child.0.id()).count();
        assert_eq!(of_child, MANY + 1);
        let row = |rows: &[Process]| rows.iter().find(|row| row.task.pid == still.0.id()).cloned();
        assert!(row(&all.process).is_some() && row(&all.process) == row(&few.process));
    }
}

#[test]
fn readings_follow_who_stands_still_who_goes_on_and_what_others_do_to_him() {
    if bpf::is_out_of_reach() {
        return;
    }
    let _uncrowded = no_crowd();
    ways().into_iter().for_each(who_stands_still_is_followed);
}

fn who_stands_still_is_followed(mut iterator: TaskIterator) {
    let still = Still::new("while :; do :; done");
    let pid = still.0.id();
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

    signal(&still.0, libc::SIGCONT);
    std::thread::sleep(Duration::from_millis(100));
    assert!(rows_now()[0].user.get() > first[0].user.get());
    signal(&still.0, libc::SIGKILL);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(rows_now()[0].state.get(), Some("Z"));
}
