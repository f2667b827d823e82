//! Processes that lose their time to switching, migrations or each other's locks, and look-alikes.

use crate::{MS, SECOND, cpu, first, found, machine, pressure};
use whyslow_documents::diagnosis::{Confidence, Diagnosis, RuledOut, Verdict};
use whyslow_model::catalogue::*;
use whyslow_model::key::{MachineKey, TaskKey};

const PID: u32 = 10;

/// Activity of a process and the machine in each second of the window.
#[derive(Clone, Copy, Default)]
struct Doing {
    user_ms: u64,
    system_ms: u64,
    voluntary: u64,
    involuntary: u64,
    migrations: u64,
    /// Bytes through read and write calls.
    bytes: u64,
    threads: u64,
    /// Number of its threads that sleep for a lock, and that switch at all.
    lock_waiters: u64,
    switching: u64,
    /// Time asleep for locks in each second, if BPF measured it; also attributed to the holder.
    lock_ms: Option<u64>,
}

fn key(tid: u32) -> TaskKey {
    TaskKey { pid: PID, tid, start: 1 }
}

fn process(t: u64, d: &Doing) -> Process {
    Process::from(ProcessRow {
        command: "app".into(),
        user: (t * d.user_ms * MS).into(),
        system: (t * d.system_ms * MS).into(),
        run_delay: (t * MS).into(),
        voluntary_switches: (t * d.voluntary).into(),
        involuntary_switches: (t * d.involuntary).into(),
        migrations: (t * d.migrations).into(),
        read_chars: (t * d.bytes).into(),
        write_chars: 0.into(),
        read_bytes: 0.into(),
        write_bytes: 0.into(),
        nice: 0.0.into(),
        threads: d.threads.into(),
        kernel_thread: 0.0.into(),
        ..ProcessRow::new(key(PID))
    })
}

fn thread(t: u64, d: &Doing, n: u64) -> Thread {
    let busy = n < d.switching;
    Thread {
        state: "S".into(),
        user: (t * d.user_ms * MS / d.threads).into(),
        system: (t * d.system_ms * MS / d.threads).into(),
        voluntary_switches: if busy { t * d.voluntary / d.threads } else { 1 }.into(),
        involuntary_switches: 0.into(),
        lock_wait: u64::from(n < d.lock_waiters).into(),
        ..Thread::new(key(PID + n as u32))
    }
}

/// Diagnoses ten seconds of a machine of two CPUs that runs nothing else.
fn ten_seconds(d: Doing) -> Diagnosis {
    machine(|t, s| {
        for cpu in 0..2 {
            let (user, system) = (d.user_ms * MS / 2, d.system_ms * MS / 2);
            s.processor.cpu.push(Cpu {
                user: (t * user).into(),
                system: (t * system).into(),
                idle: (t * (SECOND - user - system)).into(),
                ..Cpu::new(cpu)
            });
        }
        pressure(t, s, 0, 0, 0);
        s.task.process.push(process(t, &d));
        if d.threads > 1 {
            s.task.thread.extend((0..d.threads).map(|n| thread(t, &d, n)));
        }
        if let Some(ms) = d.lock_ms {
            s.task.sleep.push(Sleep {
                lock: (t * ms * MS).into(),
                lock_waits: (t * 500).into(),
                ..Sleep::new(key(PID))
            });
            let holder = LockHolder { kept_waiting: (t * ms * MS).into(), ..LockHolder::new(key(PID + 1)) };
            s.task.lock_holder.push(holder);
        }
    })
}

fn has(d: &Diagnosis, id: &str) -> bool {
    found(d, id).is_some()
}

#[test]
fn a_byte_that_is_handed_round() {
    let ring = Doing {
        user_ms: 30,
        system_ms: 690,
        voluntary: 47_000,
        involuntary: 1000,
        bytes: 96_000,
        threads: 1,
        ..Doing::default()
    };
    let d = ten_seconds(ring);
    assert_eq!(first(&d), ("cpu.context_switches", "app"));
    assert_eq!(d.findings[0].confidence, Confidence::High);
    assert!((d.findings[0].impact - 0.69).abs() < 1e-9);
    let kernel_time = found(&d, "cpu.system_time").expect("it is kernel time, too");
    assert_eq!(kernel_time.explained_by, Some(d.findings[0].key()));
}

#[test]
fn half_a_cpu_of_kernel_time_limits_nothing() {
    let server = Doing { user_ms: 90, system_ms: 490, voluntary: 200, threads: 1, ..Doing::default() };
    let d = ten_seconds(server);
    assert!(found(&d, "cpu.system_time").is_none(), "{:?}", d.findings);
}

#[test]
fn a_server_that_works_between_its_switches() {
    // As many switches, with 20 us of own work each; a copier with as many, 64 KiB each.
    let server =
        Doing { user_ms: 900, system_ms: 300, voluntary: 45_000, bytes: 5_000_000, threads: 1, ..Doing::default() };
    assert!(!has(&ten_seconds(server), "cpu.context_switches"));
    let copier =
        Doing { user_ms: 20, system_ms: 300, voluntary: 6000, bytes: 6000 << 16, threads: 1, ..Doing::default() };
    assert!(!has(&ten_seconds(copier), "cpu.context_switches"));
}

#[test]
fn a_thread_that_hops() {
    let hop = Doing { user_ms: 950, system_ms: 20, voluntary: 4000, migrations: 4000, threads: 1, ..Doing::default() };
    let d = ten_seconds(hop);
    assert_eq!(first(&d), ("cpu.migrations", "app"));
    // 0.97 s in 4000 periods of 242 us: filling a cache may take 100 us of each.
    assert!((d.findings[0].impact - 0.4).abs() < 1e-9, "{}", d.findings[0].impact);
    let single = found(&d, "cpu.single_thread").expect("it is one busy thread, too");
    assert!(single.explained_by.is_some());
    let even = Doing { migrations: 20, voluntary: 20, ..hop };
    assert!(!has(&ten_seconds(even), "cpu.migrations"));
}

#[test]
fn threads_that_queue_for_a_lock() {
    let fight = Doing { user_ms: 200, voluntary: 2000, threads: 8, lock_waiters: 6, switching: 8, ..Doing::default() };
    let sampled = ten_seconds(fight);
    assert_eq!(first(&sampled), ("lock.contention", "app"));
    assert_eq!((sampled.findings[0].confidence, sampled.verdict), (Confidence::Medium, Verdict::Bottleneck));
    assert!(sampled.findings[0].culprits.is_empty(), "sampling does not tell who held it");
    let measured = ten_seconds(Doing { lock_ms: Some(6000), ..fight });
    assert_eq!(first(&measured), ("lock.contention", "app"));
    assert_eq!(measured.findings[0].confidence, Confidence::High);
    assert_eq!(measured.findings[0].culprits[0].pid, Some(PID));
}

#[test]
fn parked_threads_are_no_contention() {
    // No thread switches except two that work; all sleep in futex(2), whatever the futex word says.
    let pool = Doing { user_ms: 100, voluntary: 4000, threads: 50, lock_waiters: 50, switching: 0, ..Doing::default() };
    let d = ten_seconds(pool);
    assert!(!has(&d, "lock.contention"), "{:?}", d.findings);
    assert_eq!(d.verdict, Verdict::Healthy);
    let game = Doing { user_ms: 200, voluntary: 900, threads: 4, lock_waiters: 0, switching: 4, ..Doing::default() };
    assert_eq!(ten_seconds(game).verdict, Verdict::Healthy);
}

/// Diagnoses a machine of two CPUs on which one thread of this name runs for this percentage of the time.
fn one_thread(name: &str, busy: u64) -> Diagnosis {
    machine(|t, s| {
        s.processor.cpu.extend([cpu(t, 0, busy, 0), cpu(t, 1, 0, 0)]);
        pressure(t, s, 0, 0, 0);
        s.task.process.push(Process::from(ProcessRow {
            command: name.into(),
            state: "R".into(),
            user: (t * SECOND * busy / 100).into(),
            system: 0.into(),
            run_delay: (t * MS).into(),
            nice: 0.0.into(),
            threads: 1.0.into(),
            kernel_thread: 0.0.into(),
            ..ProcessRow::new(key(PID))
        }));
    })
}

/// `git gc` alone on a machine of two CPUs: only the speed of one CPU limits it, and a second one is idle.
#[test]
fn one_thread_that_fills_a_cpu_is_the_limit_though_the_machine_is_half_idle() {
    let d = one_thread("git", 97);
    assert_eq!((d.verdict, first(&d)), (Verdict::Bottleneck, ("cpu.single_thread", "git")));
    assert_eq!(d.findings[0].confidence, Confidence::High);
    // A thread that sleeps for a third of the time waits for something else.
    assert_eq!(one_thread("git", 64).verdict, Verdict::Healthy);
}

#[test]
fn a_thread_that_polls_for_io_uring_is_not_limited_by_its_cpu() {
    let d = one_thread("iou-sqp-4711", 99);
    assert_eq!((d.verdict, has(&d, "cpu.single_thread")), (Verdict::Healthy, false));
    let is_named = |entry: &RuledOut| entry.id.starts_with("cpu.single_thread") && entry.because.contains("SQPOLL");
    assert!(d.ruled_out.iter().any(is_named), "{:?}", d.ruled_out);
}

#[test]
fn a_thread_that_polls_a_network_card_is_not_limited_by_its_cpu() {
    let d = one_thread("pmd-c02/id:9", 99);
    assert_eq!((d.verdict, has(&d, "cpu.single_thread")), (Verdict::Healthy, false));
}

/// A server whose one thread has no time left accepts too late.
#[test]
fn a_thread_that_fills_a_cpu_explains_its_full_accept_queue() {
    use whyslow_model::key::SocketKey;
    let with = |pid: u32| {
        machine(|t, s| {
            s.processor.cpu.extend([cpu(t, 0, 100, 0), cpu(t, 1, 0, 0)]);
            pressure(t, s, 0, 0, 0);
            s.task.process.push(process(t, &Doing { user_ms: 1000, threads: 1, ..Doing::default() }));
            let socket = SocketKey {
                ns: "".into(),
                local: "192.0.2.1:80".parse().unwrap(),
                remote: "0.0.0.0:0".parse().unwrap(),
                inode: 9,
            };
            s.net.listener.push(Listener {
                backlog: 129.0.into(),
                backlog_limit: 128.0.into(),
                drops: (t * 20).into(),
                pid: f64::from(pid).into(),
                ..Listener::new(socket)
            });
        })
    };
    let cause_of = |d: &Diagnosis| {
        let overflow = found(d, "net.listen_overflow").expect("the queue is full");
        overflow.explained_by.clone()
    };
    let d = with(PID);
    assert_eq!(first(&d), ("cpu.single_thread", "app"));
    assert_eq!(cause_of(&d), Some(d.findings[0].key()));
    assert_eq!(cause_of(&with(PID + 1)), None, "another process has time to accept");
}

/// In version 1, `cpu` and `cpuacct` can be separate hierarchies: then a group's CPU time is that of its processes.
#[test]
fn what_a_quota_costs_is_known_by_the_processes_of_the_group() {
    let stopped_in = |periods: u64| {
        let d = machine(|t, s| {
            s.processor.cpu.extend([0, 1].map(|number| cpu(t, number, 13, 0)));
            pressure(t, s, 0, 0, 0);
            let app = process(t, &Doing { user_ms: 250, threads: 1, ..Doing::default() });
            s.task.process.push(Process::from(ProcessRow { cgroup: "/app".into(), ..ProcessRow::clone(&app) }));
            s.cgroup.group.push(Group {
                version: "v1".into(),
                quota: 25_000_000.into(),
                period: 100_000_000.into(),
                periods: (t * 10).into(),
                throttled_periods: (t * periods).into(),
                throttled_time: (t * 750 * MS).into(),
                ..Group::new("/app".into())
            });
        });
        let throttled = found(&d, "cpu.throttled").expect("a finding").clone();
        assert_eq!(throttled.actions[0].set["cgroup.cpu.cfs_quota_us@/app"], "-1");
        throttled.actions[0].clone()
    };
    let action = stopped_in(10);
    let gain = action.gain.expect("a gain");
    // A quarter of a CPU used and three quarters throttled.
    assert!((gain.factor - 4.0).abs() < 0.01 && (gain.low - 3.0).abs() < 0.01, "{gain:?}");
    assert!(action.try_command.unwrap().contains(" --metric +group.cpu@/app "));
    assert!(stopped_in(7).gain.is_none(), "in three of ten periods it needed no more");
}

/// Diagnoses two programs bound to the first of two CPUs. Each waits for it `waiting_ms` of every second; the other CPU is idle
/// for `idle_ms`.
fn bound_to_the_first_cpu(waiting_ms: u64, idle_ms: u64) -> Diagnosis {
    machine(|t, s| {
        s.processor.cpu.push(cpu(t, 0, 98, 1));
        s.processor.cpu.push(Cpu {
            user: (t * (1000 - idle_ms) * MS).into(),
            idle: (t * idle_ms * MS).into(),
            ..Cpu::new(1)
        });
        pressure(t, s, 50, 0, 0);
        for pid in [PID, PID + 1] {
            let task = TaskKey { pid, tid: pid, start: 1 };
            s.task.process.push(Process::from(ProcessRow {
                command: "worker".into(),
                user: (t * 490 * MS).into(),
                system: 0.into(),
                run_delay: (t * waiting_ms * MS).into(),
                nice: 0.0.into(),
                threads: 1.into(),
                kernel_thread: 0.0.into(),
                ..ProcessRow::new(task)
            }));
            s.task.affinity.push(Affinity { cpus: "0".into(), ..Affinity::new(task) });
        }
    })
}

#[test]
fn programs_that_wait_for_the_cpus_to_which_they_are_bound() {
    let d = bound_to_the_first_cpu(500, 990);
    assert_eq!(first(&d), ("cpu.saturated", "0"));
    assert_eq!((&*d.findings[0].subject.kind, d.findings[0].confidence), ("cpuset", Confidence::High));
    assert_eq!(d.findings[0].culprits[0].pids, [PID, PID + 1]);
    // They hardly wait; and all CPUs are busy.
    assert!(!has(&bound_to_the_first_cpu(50, 990), "cpu.saturated"));
    let busy = bound_to_the_first_cpu(500, 20);
    assert!(busy.findings.iter().all(|f| f.subject.kind != "cpuset"), "{:?}", busy.findings);
}

#[test]
fn a_control_group_that_may_not_start_more() {
    let group = |refused: u64| {
        machine(|t, s| {
            s.processor.cpu.extend([cpu(t, 0, 5, 1), cpu(t, 1, 5, 1)]);
            s.cgroup.group.push(Group {
                pids: 64.into(),
                pids_max: 64.into(),
                pids_events: (t * refused).into(),
                ..Group::new("/web".into())
            });
        })
    };
    assert_eq!(first(&group(3)), ("limit.processes", "/web"));
    assert!(!has(&group(0), "limit.processes"));
}

/// Diagnoses two CPUs that lose 35 % of their time to steal, with this number of runnable tasks.
fn stolen_from(runnable: u64) -> Diagnosis {
    machine(|t, s| {
        let time = |percent: u64| (t * SECOND * percent / 100).into();
        let row = |n: u32| Cpu { user: time(60), idle: time(5), steal: time(35), ..Cpu::new(n) };
        s.processor.cpu.extend([0, 1].map(row));
        s.processor.system.push(System { running: runnable.into(), ..System::new(MachineKey) });
        pressure(t, s, 99, 0, 0);
    })
}

#[test]
fn what_the_hypervisor_takes_explains_waiting_unless_the_tasks_are_too_many_anyway() {
    let d = stolen_from(3);
    assert_eq!(d.findings[0].id, "cpu.steal");
    let saturated = found(&d, "cpu.saturated").expect("tasks wait");
    assert_eq!(saturated.explained_by, Some(d.findings[0].key()));
    let d = stolen_from(8);
    assert_eq!(found(&d, "cpu.saturated").expect("tasks wait").explained_by, None);
}
