//! Machines of known physics: which cause comes first, and which must not appear.

use crate::{SECOND, disk, first, found, key, machine, pressure, two_cpus};
use whyslow_documents::diagnosis::{Confidence, Diagnosis, Reading, Verdict};
use whyslow_model::catalogue::*;
use whyslow_model::key::{LinkKey, MachineKey, TaskKey};
use whyslow_model::snapshot::Snapshot;

/// Adds a device that completes `rate` requests of `size` bytes per second with `queue` in flight all the time.
fn device(t: u64, s: &mut Snapshot, name: &str, rate: u64, size: u64, queue: f64) {
    let busy_time = ((t as f64 * 1e9 * queue.min(1.0)) as u64).into();
    s.block.disk.push(Disk { busy_time, ..disk(t, name, rate, size, queue) });
    s.block.queue.push(Queue { max_request: (1280u64 << 10).into(), ..Queue::new(name.into()) });
}

fn layer(s: &mut Snapshot, upper: &str, lower: &str, kind: &str) {
    let link = LinkKey { upper: upper.into(), lower: lower.into() };
    s.block.layer.push(Layer { kind: kind.into(), ..Layer::new(link) });
}

/// Adds a process that uses `cpu` percent of a CPU and reads `bytes` per second.
fn process(t: u64, s: &mut Snapshot, pid: u32, name: &str, cpu: u64, bytes: u64) {
    s.task.process.push(Process::from(ProcessRow {
        command: name.into(),
        state: "R".into(),
        user: (t * SECOND * cpu / 100).into(),
        system: 0.into(),
        run_delay: (t * SECOND * 60 / 100 * u64::from(cpu > 0)).into(),
        read_bytes: (t * bytes).into(),
        write_bytes: 0.into(),
        nice: 0.0.into(),
        threads: 1.0.into(),
        kernel_thread: 0.0.into(),
        ..ProcessRow::new(key(pid))
    }));
}

fn value(d: &Diagnosis, metric: &str) -> f64 {
    let evidence = d.findings[0].evidence.iter().find(|e| e.metric == metric).expect("the metric is shown");
    match evidence.value {
        Reading::Number(n) => n,
        Reading::Text(_) => panic!("{metric} is no number"),
    }
}

#[test]
fn an_idle_machine_is_healthy_and_says_why() {
    let d = machine(|t, s| {
        two_cpus(t, s, 2, 0);
        pressure(t, s, 0, 0, 0);
    });
    assert_eq!(d.verdict, Verdict::Healthy);
    assert!(d.findings.is_empty());
    assert!(d.ruled_out.iter().any(|r| r.id == "cpu" && r.because.contains("2 % busy")), "{:?}", d.ruled_out);
}

#[test]
fn tasks_that_are_kept_from_idle_cpus_stand_out_but_short_waits_do_not() {
    let with_switches = |switches: u64| {
        machine(move |t, s| {
            two_cpus(t, s, 15, 0);
            pressure(t, s, 40, 0, 0);
            // It waits 60 % of the time.
            process(t, s, 7, "worker", 20, 0);
            s.processor.system.push(System { context_switches: (t * switches).into(), ..System::new(MachineKey) });
        })
    };
    // 2 ms each, then 20 us.
    let (kept, short) = (with_switches(300), with_switches(30_000));
    let not_cleared = |d: &Diagnosis| d.not_cleared.iter().any(|n| n.id == "cpu");
    assert!(not_cleared(&kept) && !not_cleared(&short), "{:?} {:?}", kept.not_cleared, short.not_cleared);
    assert!(short.ruled_out.iter().any(|r| r.id == "cpu"), "{:?}", short.ruled_out);
}

/// Activity in hidden namespaces and groups is in none of the numbers that would clear the resource.
#[test]
fn what_is_known_to_be_hidden_is_not_healthy() {
    let hidden = |namespaces: u64, groups: u64| {
        machine(move |t, s| {
            two_cpus(t, s, 2, 0);
            pressure(t, s, 0, 0, 0);
            s.net.network_namespaces.push(NetworkNamespaces { refused: namespaces.into(), ..Default::default() });
            s.cgroup.hidden_groups.push(HiddenGroups { cpu: groups.into(), ..Default::default() });
        })
    };
    let open = |d: &Diagnosis| d.not_cleared.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>();
    assert_eq!(hidden(0, 0).verdict, Verdict::Healthy);
    let (networks, groups) = (hidden(2, 0), hidden(0, 1));
    assert_eq!((networks.verdict, groups.verdict), (Verdict::Undetermined, Verdict::Undetermined));
    assert_eq!((open(&networks), open(&groups)), (vec!["network".to_owned()], vec!["cpu".to_owned()]));
    assert!(networks.not_cleared[0].because.starts_with("2 other network namespaces were not read"), "{networks:?}");
}

#[test]
fn too_little_seen_is_undetermined_not_healthy() {
    assert_eq!(machine(|_, _| ()).verdict, Verdict::Undetermined);
    let without_memory = machine(|t, s| {
        two_cpus(t, s, 2, 0);
        pressure(t, s, 0, 0, 0);
        s.processor.pressure.iter_mut().for_each(|p| p.memory_some = Default::default());
    });
    assert_eq!((without_memory.verdict, without_memory.findings.len()), (Verdict::Undetermined, 0));
}

#[test]
fn more_work_than_processors() {
    let d = machine(|t, s| {
        two_cpus(t, s, 100, 0);
        pressure(t, s, 98, 0, 0);
        for pid in 10..16 {
            process(t, s, pid, "spin", 33, 0);
        }
    });
    assert_eq!(first(&d), ("cpu.saturated", "host"));
    assert_eq!(d.findings[0].confidence, Confidence::High);
    assert_eq!(d.findings[0].culprits[0].name, "spin");
    assert!((value(&d, "stall.cpu") - 0.98).abs() < 1e-9);
}

#[test]
fn a_little_work_in_short_processes_is_not_why_the_processors_are_full() {
    let d = machine(|t, s| {
        two_cpus(t, s, 100, 0);
        pressure(t, s, 92, 0, 0);
        s.processor.system.push(System { forks: (t * 50).into(), ..System::new(MachineKey) });
        for pid in 10..16 {
            process(t, s, pid, "spin", 29, 0);
        }
        let key = TaskKey { pid: 30, tid: 30, start: 1 };
        s.task.process.push(Process::from(ProcessRow {
            command: "sh".into(),
            state: "S".into(),
            user: 0.into(),
            system: 0.into(),
            children_user: (t * SECOND * 26 / 100).into(),
            children_system: 0.into(),
            kernel_thread: 0.0.into(),
            threads: 1.0.into(),
            ..ProcessRow::new(key)
        }));
    });
    assert!(d.findings.iter().any(|f| f.id == "cpu.short_lived"), "{:?}", d.findings);
    assert_eq!(first(&d), ("cpu.saturated", "host"));
}

#[test]
fn all_processors_busy_and_nobody_waiting_is_healthy() {
    let d = machine(|t, s| {
        two_cpus(t, s, 100, 0);
        pressure(t, s, 3, 0, 0);
    });
    assert_eq!(d.verdict, Verdict::Healthy);
}

#[test]
fn a_queue_that_stands() {
    let d = machine(|t, s| {
        two_cpus(t, s, 5, 0);
        pressure(t, s, 0, 0, 99);
        device(t, s, "sda", 311, 512 << 10, 6.0);
        process(t, s, 20, "reader", 3, 311 * (512 << 10));
    });
    assert_eq!(first(&d), ("disk.saturated", "sda"));
    assert_eq!(d.findings[0].culprits[0].pid, Some(20));
    // Known numbers of a striping experiment: 311 requests per second, six in flight, 19.3 ms each.
    assert!((value(&d, "disk.wait") - 0.0193).abs() < 0.0001);
    assert!((value(&d, "disk.interval") - 0.0032).abs() < 0.0001);
    assert_eq!(value(&d, "disk.request_size"), f64::from(512 << 10));
}

#[test]
fn a_caller_that_waits_for_each_request_is_not_saturation() {
    let d = machine(|t, s| {
        two_cpus(t, s, 5, 0);
        pressure(t, s, 0, 0, 95);
        device(t, s, "sda", 5300, 2048, 0.97);
        process(t, s, 20, "reader", 3, 5300 * 2048);
    });
    assert_eq!(first(&d), ("disk.depth_one", "sda"));
    assert!(d.findings.iter().any(|f| f.id == "disk.small_io"));
    assert!(d.findings.iter().all(|f| f.id != "disk.saturated"));
}

#[test]
fn a_busy_device_that_answers_at_once_is_healthy() {
    let d = machine(|t, s| {
        two_cpus(t, s, 30, 0);
        pressure(t, s, 0, 0, 4);
        device(t, s, "nvme0n1", 90_000, 16 << 10, 9.0);
    });
    assert_eq!(d.verdict, Verdict::Healthy, "{:?}", d.findings);
}

/// Diagnoses two loop devices on a disk, each as (requests per second, requests in flight): the disk does what they do together.
fn two_on_one(loops: [(u64, f64); 2]) -> Diagnosis {
    let [first, second] = loops;
    machine(|t, s| {
        two_cpus(t, s, 5, 0);
        pressure(t, s, 0, 0, 99);
        device(t, s, "sda", first.0 + second.0, 64 << 10, first.1 + second.1);
        device(t, s, "loop0", first.0, 64 << 10, first.1);
        device(t, s, "loop1", second.0, 64 << 10, second.1);
        layer(s, "loop0", "sda", "loop");
        layer(s, "loop1", "sda", "loop");
    })
}

#[test]
fn users_of_one_device_are_effects_of_its_being_shared() {
    let d = two_on_one([(150, 2.0), (150, 2.0)]);
    assert_eq!(first(&d), ("disk.shared", "sda"));
    assert!(d.findings.len() > 2 && d.findings[1..].iter().all(|f| f.explained_by.is_some()), "{:?}", d.findings);
}

#[test]
fn a_device_with_hardly_any_requests_does_not_contend() {
    let d = two_on_one([(290, 32.0), (10, 0.5)]);
    assert!(d.findings.iter().all(|f| f.id != "disk.shared"), "{:?}", d.findings);
    assert_eq!(first(&d).0, "disk.saturated");
}

/// Adds a process of two threads, each found in uninterruptible sleep at every sample, with this many switches so far.
fn sleepers(s: &mut Snapshot, switches: u64) {
    let key = |tid| TaskKey { pid: 7, tid, start: 5 };
    s.task.process.push(Process::from(ProcessRow {
        command: "reader".into(),
        state: "D".into(),
        threads: 2u64.into(),
        ..ProcessRow::new(key(7))
    }));
    s.task.thread.extend([7, 8].map(|tid| Thread {
        command: "reader".into(),
        state: "D".into(),
        wait_channel: "submit_bio_wait".into(),
        user: 0.into(),
        system: 0.into(),
        voluntary_switches: switches.into(),
        ..Thread::new(key(tid))
    }));
}

#[test]
fn threads_that_never_wake_are_blocked_and_told_apart() {
    let d = machine(|_, s| sleepers(s, 40));
    let keys: Vec<String> = d.findings.iter().map(|f| f.key()).collect();
    assert_eq!(keys, ["task.blocked@reader[7/7]", "task.blocked@reader[7/8]"]);
    assert_eq!(d.findings[1].explained_by.as_ref(), Some(&keys[0]));
    let culprits: Vec<_> = d.findings[0].culprits.iter().map(|c| (c.pid, c.share)).collect();
    assert_eq!(culprits, [(Some(7), 1.0)], "threads of one process are one culprit");
}

/// mq-deadline lets a request of the idle class wait for up to ten seconds while others keep coming.
#[test]
fn a_thread_with_idle_io_priority_waits_while_others_keep_a_disk_busy() {
    let blocked = |policy: &'static str, queue: f64| {
        let d = machine(move |t, s| {
            two_cpus(t, s, 5, 0);
            pressure(t, s, 0, 0, 25);
            device(t, s, "sda", 5500, 262_144, queue);
            s.task.process.push(Process::from(ProcessRow {
                command: "cc1".into(),
                state: "D".into(),
                policy: policy.into(),
                user: 0.into(),
                system: 0.into(),
                voluntary_switches: 3.into(),
                involuntary_switches: 0.into(),
                threads: 1.0.into(),
                kernel_thread: 0.0.into(),
                ..ProcessRow::new(key(30))
            }));
        });
        found(&d, "task.blocked").is_some()
    };
    assert_eq!([blocked("NORMAL", 64.0), blocked("IDLE", 64.0), blocked("IDLE", 0.1)], [true, false, true]);
}

#[test]
fn threads_that_wait_for_a_busy_disk_but_get_on_are_not_blocked() {
    let d = machine(|t, s| sleepers(s, t * 40));
    assert_eq!(d.findings, []);
}

#[test]
fn without_psi_waiting_is_inferred_from_the_run_queues() {
    let d = machine(|t, s| {
        two_cpus(t, s, 100, 0);
        for pid in 10..16 {
            process(t, s, pid, "spin", 33, 0);
        }
    });
    assert_eq!(first(&d), ("cpu.saturated", "host"));
}

/// Diagnoses a machine where one process, seen from `born` on, holds nearly all memory, and the kernel kills for memory.
fn kill(born: u64, how: &str) -> Diagnosis {
    machine(|t, s| {
        for (pid, name, born, rss) in [(1, "init", 0, 8 << 20), (42, "hog", born, 4u64 << 30)] {
            if t >= born {
                let key = TaskKey { pid, tid: pid, start: born };
                s.task.process.push(Process::from(ProcessRow {
                    command: name.into(),
                    rss: (rss as f64).into(),
                    ..ProcessRow::new(key)
                }));
            }
        }
        if t == 5 {
            let text = format!("{how}: Killed process 7 (other) total-vm:64744kB, anon-rss:59648kB, file-rss:0kB");
            s.kernel.log.push(LogLine { text: text.as_str().into(), ..LogLine::new(1) });
        }
    })
}

#[test]
fn the_largest_process_leaks_only_where_nothing_tells_otherwise() {
    let found = |d: &Diagnosis| d.findings.iter().any(|f| f.id == "mem.leak");
    let machine = "Out of memory";
    assert!(found(&kill(10, machine)), "seen once when the machine had run out: the one to look at");
    assert!(!found(&kill(0, machine)), "watched, and it did not grow");
    assert!(
        !found(&kill(10, "Memory cgroup out of memory")),
        "a group ran out: the machine's largest has no part in it"
    );
}

/// Diagnoses a thread that is stuck in this kernel function, while the log reports that an NFS server does not respond.
fn stuck_in(wait_channel: &str) -> Diagnosis {
    machine(|t, s| {
        two_cpus(t, s, 1, 1);
        let row = ProcessRow {
            command: "dd".into(),
            state: "D".into(),
            threads: 1.into(),
            wait_channel: wait_channel.into(),
            user: 0.into(),
            system: 0.into(),
            voluntary_switches: 1.into(),
            involuntary_switches: 0.into(),
            ..ProcessRow::new(key(42))
        };
        s.task.process.push(Process::from(row));
        if t == 3 || t == 6 {
            let text = "nfs: server filer1 not responding, timed out";
            s.kernel.log.push(LogLine { text: text.into(), ..LogLine::new(t) });
        }
    })
}

#[test]
fn a_silent_nfs_server_is_the_cause_of_threads_that_wait_for_it_alone() {
    let named = |d: &Diagnosis| {
        let cause = found(d, "nfs.slow").expect("the server is silent");
        (first(d).0.to_owned(), cause.culprits.iter().map(|culprit| culprit.name.clone()).collect::<Vec<_>>())
    };
    assert_eq!(named(&stuck_in("rpc_wait_bit_killable")), ("nfs.slow".into(), vec!["dd".into()]));
    assert_eq!(named(&stuck_in("nfs_file_direct_write")), ("nfs.slow".into(), vec!["dd".into()]));
    assert_eq!(named(&stuck_in("io_schedule")), ("task.blocked".into(), vec![]));
}

/// Diagnoses two threads that wait for a disk in this state, which has nothing in flight.
fn waiting_for(state: &str) -> Diagnosis {
    machine(|t, s| {
        two_cpus(t, s, 1, 1);
        pressure(t, s, 0, 0, 90);
        sleepers(s, 40);
        let idle = disk(t, "sdc", 0, 4096, 0.0);
        s.block.disk.push(Disk { busy_time: 0.into(), weighted_time: 0.into(), ..idle });
        let queue = Queue::new("sdc".into());
        s.block.queue.push(Queue { state: state.into(), transport: "iscsi".into(), ..queue });
    })
}

#[test]
fn a_disk_that_cannot_be_reached_hangs_although_nothing_is_in_flight() {
    let d = waiting_for("blocked");
    let hangs = found(&d, "disk.hung").expect("it is blocked");
    assert_eq!((hangs.subject.name.as_str(), hangs.confidence), ("sdc", Confidence::High));
    assert_eq!(hangs.culprits.first().map(|culprit| culprit.name.as_str()), Some("reader"));
    assert_eq!(first(&d).0, "disk.hung", "the threads are stuck because of it");
    assert!(found(&waiting_for("running"), "disk.hung").is_none());
}

#[test]
fn every_number_keeps_its_formula_and_every_summary_is_filled_in() {
    let d = machine(|t, s| {
        two_cpus(t, s, 100, 0);
        pressure(t, s, 98, 0, 99);
        device(t, s, "sda", 311, 512 << 10, 6.0);
        for pid in 10..16 {
            process(t, s, pid, "spin", 33, 1000);
        }
    });
    for f in &d.findings {
        assert!(!f.summary.contains('{') && !f.summary.contains("unknown"), "{}: {}", f.id, f.summary);
        assert!((0.0..=1.0).contains(&f.impact));
        for e in &f.evidence {
            assert!(!e.how.is_empty() && !e.source.is_empty() && !e.expected.is_empty());
        }
    }
}

#[test]
fn the_limit_of_open_files_is_raised_and_the_hard_limit_never_lowered() {
    let set = |hard: f64| {
        let d = machine(|t, s| {
            two_cpus(t, s, 5, 0);
            s.task.process.push(Process::from(ProcessRow {
                command: "server".into(),
                state: "S".into(),
                user: (t * SECOND / 50).into(),
                system: 0.into(),
                open_files: 1024.0.into(),
                open_files_limit: 1024.0.into(),
                open_files_hard_limit: hard.into(),
                kernel_thread: 0.0.into(),
                ..ProcessRow::new(TaskKey { pid: 20, tid: 20, start: 1 })
            }));
        });
        let found = found(&d, "limit.open_files").expect("the limit is found");
        found.actions[0].set["process.nofile@20"].clone()
    };
    assert_eq!((set(1024.0), set(524_288.0)), ("4096 4096".into(), "4096 524288".into()));
}
