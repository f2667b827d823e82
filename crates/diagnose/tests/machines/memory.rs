//! Memory that runs out, and memory that is withheld.

use crate::{SECOND, found, key, pressure, two_cpus};
use whyslow_documents::diagnosis::{Confidence, Diagnosis, Reading, Verdict};
use whyslow_model::catalogue::*;
use whyslow_model::histogram::Histogram;
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;

const MIB: f64 = 1_048_576.0;

/// Diagnoses a machine of two CPUs, half busy, without any waiting; `fill` adds the rest after this many seconds.
fn machine(fill: impl Fn(u64, &mut Snapshot)) -> Diagnosis {
    crate::machine(|t, s| {
        two_cpus(t, s, 5, 45);
        pressure(t, s, 0, 0, 0);
        s.memory.vmstat.push(Vmstat { pswpin: 0.into(), pswpout: 0.into(), ..Vmstat::new(MachineKey) });
        fill(t, s);
    })
}

fn available(s: &mut Snapshot, bytes: f64, swap: f64) {
    s.memory.meminfo.push(Meminfo {
        mem_total: (24_000.0 * MIB).into(),
        mem_available: bytes.into(),
        swap_total: swap.into(),
        swap_free: swap.into(),
        ..Meminfo::new(MachineKey)
    });
}

/// Adds a process that spends nine tenths of a CPU in the kernel and holds this much memory.
fn eater(t: u64, s: &mut Snapshot, cgroup: &str, rss: f64) {
    s.task.process.push(Process::from(ProcessRow {
        command: "eater".into(),
        state: "R".into(),
        cgroup: cgroup.into(),
        user: (t * SECOND / 10).into(),
        system: (t * SECOND * 9 / 10).into(),
        run_delay: 0.into(),
        minor_faults: (t * 76_800).into(),
        rss: rss.into(),
        rss_file: MIB.into(),
        nice: 0.0.into(),
        threads: 1.0.into(),
        kernel_thread: 0.0.into(),
        ..ProcessRow::new(key(42))
    }));
}

fn group(s: &mut Snapshot, row: Group) {
    s.cgroup.group.push(Group { version: "v2".into(), ..row });
}

fn ids(d: &Diagnosis) -> Vec<&str> {
    d.findings.iter().map(|f| f.id.as_str()).collect()
}

fn memory_is_cleared(d: &Diagnosis) -> bool {
    d.ruled_out.iter().any(|r| r.id == "memory")
}

/// Diagnoses a process that takes 300 MiB per second of the memory left at first.
fn growing(left: f64, swap: f64) -> Diagnosis {
    machine(|t, s| {
        let taken = 300.0 * MIB * t as f64;
        available(s, left - taken, swap);
        eater(t, s, "/", 100.0 * MIB + taken);
    })
}

#[test]
fn a_process_that_takes_memory_without_end_is_the_answer_before_the_kill() {
    let d = growing(8000.0 * MIB, 0.0);
    let first = &d.findings[0];
    assert_eq!((first.id.as_str(), first.subject.pid), ("mem.leak", Some(42)));
    assert_eq!((d.verdict, first.confidence), (Verdict::Bottleneck, Confidence::High));
    // 5000 MiB left at 300 MiB per second.
    let lasts = first.evidence.iter().find(|e| e.metric == "proc.exhausted_in").expect("the time left is evidence");
    let Reading::Number(seconds) = lasts.value else { panic!("{:?}", lasts.value) };
    assert!((seconds - 5000.0 / 300.0).abs() < 1e-6, "{seconds}");
    assert!(!memory_is_cleared(&d), "{:?}", d.ruled_out);
    // The page faults are kernel time.
    let kernel = found(&d, "cpu.system_time").expect("it is busy in the kernel");
    assert_eq!(kernel.explained_by, Some(first.key()));
}

#[test]
fn the_time_left_tells_how_sure_it_is() {
    let confidence = |left: f64, swap: f64| {
        let d = growing(left * MIB, swap * MIB);
        found(&d, "mem.leak").map(|f| f.confidence)
    };
    assert_eq!(confidence(23_000.0, 0.0), Some(Confidence::High), "a minute");
    assert_eq!(confidence(38_000.0, 0.0), Some(Confidence::Medium), "two minutes, after ten seconds");
    assert_eq!(confidence(8000.0, 100_000.0), Some(Confidence::Medium), "swap is used up, too");
    assert_eq!(confidence(8000.0, 2_000_000.0), None, "hours: nothing to tell yet");
}

#[test]
fn a_compiler_that_has_just_started_is_no_leak() {
    // 22 GiB left at 27 MiB/s would last a quarter of an hour; it has grown for ten seconds.
    let compiler = |at_first: f64, minutes: u64| {
        machine(|t, s| {
            s.boot_ns += minutes * 60 * SECOND;
            let taken = 27.0 * MIB * t as f64;
            available(s, 22_000.0 * MIB - taken, 0.0);
            eater(t, s, "/", taken + at_first);
        })
    };
    let d = compiler(MIB, 0);
    assert!(found(&d, "mem.leak").is_none(), "{:?}", d.findings);
    assert!(memory_is_cleared(&d), "{:?}", d.not_cleared);
    assert!(found(&compiler(900.0 * MIB, 0), "mem.leak").is_none(), "it began with a leap, eleven seconds ago");
    // For a process that has run for long, it is unknown how long it has grown.
    assert_eq!(found(&compiler(900.0 * MIB, 60), "mem.leak").map(|f| f.confidence), Some(Confidence::Low));
}

#[test]
fn growth_that_is_no_shortage() {
    let started = machine(|t, s| {
        let taken = 300.0 * MIB * t.min(5) as f64;
        available(s, 8000.0 * MIB - taken, 0.0);
        eater(t, s, "/", taken + MIB);
    });
    assert!(!ids(&started).contains(&"mem.leak"), "a program that has started");
    assert!(memory_is_cleared(&started));
    let mapped = machine(|t, s| {
        available(s, 8000.0 * MIB, 0.0);
        eater(t, s, "/", 300.0 * MIB * t as f64);
    });
    assert!(!ids(&mapped).contains(&"mem.leak"), "the machine has as much left as before");
}

#[test]
fn memory_that_runs_out_by_the_work_of_many_is_not_ruled_out() {
    let d = machine(|t, s| available(s, (4000.0 - 300.0 * t as f64) * MIB, 0.0));
    assert!(!memory_is_cleared(&d), "{:?}", d.ruled_out);
}

#[test]
fn a_process_that_uses_up_the_limit_of_its_group() {
    let d = machine(|t, s| {
        let taken = 50.0 * MIB * t as f64;
        available(s, 20_000.0 * MIB - taken, 0.0);
        eater(t, s, "/app", 10.0 * MIB + taken);
        let memory = (400.0 * MIB + 10.0 * MIB + taken).into();
        group(
            s,
            Group {
                memory,
                memory_max: (1000.0 * MIB).into(),
                file: (400.0 * MIB).into(),
                ..Group::new("/app".into())
            },
        );
    });
    let first = &d.findings[0];
    assert_eq!((first.id.as_str(), first.confidence), ("mem.leak", Confidence::High));
    // 1000 - 510 MiB, after reclaim of the page cache, at 50 MiB per second.
    assert!(first.summary.contains("/app has 490 MiB of memory left, enough for 9.80 s"), "{}", first.summary);
}

/// Returns the result for a group of this version that thrashes within its limit, while another task waits for memory half of
/// the time.
fn thrashing_group(version: &str) -> f64 {
    let d = crate::machine(|t, s| {
        for cpu in 0..2 {
            s.processor.cpu.push(Cpu {
                user: (t * SECOND / 20).into(),
                system: 0.into(),
                idle: (t * SECOND / 2).into(),
                ..Cpu::new(cpu)
            });
        }
        pressure(t, s, 0, 50, 0);
        s.memory.vmstat.push(Vmstat {
            pswpin: (t * 1000).into(),
            pswpout: (t * 1000).into(),
            ..Vmstat::new(MachineKey)
        });
        available(s, 20_000.0 * MIB, 0.0);
        let own = if version == "v2" { (t * SECOND * 9 / 10).into() } else { Default::default() };
        s.cgroup.group.push(Group {
            version: version.into(),
            memory: (300.0 * MIB).into(),
            memory_max: (300.0 * MIB).into(),
            refault_anon: (t * 1000).into(),
            psi_memory_some: own,
            ..Group::new("/app".into())
        });
        s.kernel.machine.push(MachineInfo { page_size: 4096.0.into(), ..MachineInfo::new(MachineKey) });
    });
    found(&d, "mem.thrashing").expect("it thrashes").impact
}

#[test]
fn a_group_lost_what_its_own_pressure_says() {
    assert!((thrashing_group("v2") - 0.9).abs() < 1e-9);
    assert!(
        (thrashing_group("v1") - 0.5).abs() < 1e-9,
        "without a pressure of its own, the machine's is as near as it gets"
    );
}

/// The machine swaps while its only process waits for pages, beside work that dilutes the pressure.
#[test]
fn other_work_does_not_dilute_thrashing() {
    let d = machine(|t, s| {
        available(s, 1000.0 * MIB, 0.0);
        s.memory.vmstat[0].pswpin = (t * 1000).into();
        s.memory.vmstat[0].pswpout = (t * 1000).into();
        s.processor.pressure[0].memory_some = (t * SECOND / 5).into();
        s.kernel.machine.push(MachineInfo { page_size: 4096.0.into(), ..MachineInfo::new(MachineKey) });
        s.task.process.push(
            ProcessRow {
                command: "db".into(),
                state: "D".into(),
                wait_channel: "folio_wait_bit_common".into(),
                user: 0.into(),
                system: 0.into(),
                run_delay: 0.into(),
                ..ProcessRow::new(key(42))
            }
            .into(),
        );
    });
    let first = found(&d, "mem.thrashing").expect("it thrashes");
    assert!(first.impact > 0.95, "{}", first.impact);
}

#[test]
fn a_group_that_is_held_back_at_memory_high_is_the_cause_of_its_kernel_time() {
    let d = machine(|t, s| {
        available(s, 20_000.0 * MIB, 0.0);
        eater(t, s, "/app/web", 300.0 * MIB);
        group(
            s,
            Group {
                memory: (305.0 * MIB).into(),
                memory_high: (300.0 * MIB).into(),
                anon: (290.0 * MIB).into(),
                file: (10.0 * MIB).into(),
                high_events: (t * 200).into(),
                limit_events: 0.into(),
                psi_memory_some: (t * SECOND * 43 / 100).into(),
                ..Group::new("/app".into())
            },
        );
    });
    let first = &d.findings[0];
    assert_eq!((first.id.as_str(), first.subject.name.as_str()), ("mem.cgroup_limit", "/app"));
    assert_eq!((d.verdict, first.confidence), (Verdict::Bottleneck, Confidence::High));
    assert!((first.impact - 0.43).abs() < 1e-9, "{}", first.impact);
    assert_eq!(first.culprits[0].pid, Some(42));
    assert!(first.actions[0].try_command.as_deref().unwrap().contains("cgroup.memory.high@/app=629145600"));
    let kernel = found(&d, "cpu.system_time").expect("it reclaims in the kernel");
    assert_eq!(kernel.explained_by, Some(first.key()));
}

/// Diagnoses a machine with `fixed` MiB in slabs that cannot be reclaimed, and `left` MiB available.
fn with_slab(fixed: f64, left: f64) -> Diagnosis {
    machine(|_, s| {
        available(s, left * MIB, 0.0);
        s.memory.meminfo[0].s_unreclaim = (fixed * MIB).into();
        let slab = |name: &str, size: f64| Slab { bytes: (size * MIB).into(), ..Slab::new(name.into()) };
        s.memory.slab = vec![slab("dentry", 9000.0), slab("kmalloc-64", fixed * 0.9)];
    })
}

#[test]
fn objects_of_the_kernel_that_fill_memory_are_named() {
    let d = with_slab(12_000.0, 2_000.0);
    let finding = found(&d, "mem.slab_growth").unwrap();
    assert_eq!(finding.confidence, Confidence::High);
    assert!(finding.summary.contains("kmalloc-64"), "{}", finding.summary);
    assert!(found(&with_slab(12_000.0, 9_000.0), "mem.slab_growth").is_none(), "enough is left");
    assert!(found(&with_slab(1_000.0, 2_000.0), "mem.slab_growth").is_none(), "the kernel holds little");
}

/// Diagnoses memory that is reclaimed, by kswapd 45 % of the time and for this percentage of the time by the program that
/// allocates it, which also compacts it for that percentage.
fn reclaiming(reclaim: u64, compaction: u64) -> Diagnosis {
    machine(|t, s| {
        available(s, 5000.0 * MIB, 0.0);
        let percent = |part: u64| (t * SECOND * part / 100).into();
        s.processor.pressure[0].memory_some = percent(45.max(reclaim + compaction));
        s.memory.vmstat[0] = Vmstat {
            allocstall: (t * 300).into(),
            pgsteal_kswapd: (t * 50_000).into(),
            pgsteal_direct: (t * 25_000).into(),
            workingset_refault_file: 0.into(),
            compact_stall: (t * 100).into(),
            compact_fail: (t * 10).into(),
            thp_fault_alloc: (t * 90).into(),
            thp_fault_fallback: (t * 10).into(),
            ..s.memory.vmstat[0].clone()
        };
        s.memory.sharing.push(Sharing { thp_defrag: "always".into(), ..Sharing::new(MachineKey) });
        let process = |pid: u32, command: &str, kernel: f64, cpu: u64, faults: u64| {
            Process::from(ProcessRow {
                command: command.into(),
                state: "S".into(),
                user: 0.into(),
                system: percent(cpu),
                run_delay: 0.into(),
                minor_faults: (t * faults).into(),
                read_bytes: 0.into(),
                write_bytes: 0.into(),
                nice: 0.0.into(),
                threads: 1.0.into(),
                kernel_thread: kernel.into(),
                ..ProcessRow::new(key(pid))
            })
        };
        s.task.process.extend([process(5, "kswapd0", 1.0, 45, 0), process(42, "bursts", 0.0, 30, 75_000)]);
        s.task.direct_reclaim.push(DirectReclaim {
            reclaim: percent(reclaim),
            reclaims: (t * 300).into(),
            reclaim_latency: Histogram::from_values(vec![1_000_000; 300 * t as usize]),
            large_reclaim: 0.into(),
            group_reclaim: 0.into(),
            compaction: percent(compaction),
            compactions: (t * 100).into(),
            ..DirectReclaim::new(key(42))
        });
    })
}

#[test]
fn programs_that_reclaim_memory_wait_for_the_one_that_takes_it() {
    let d = reclaiming(30, 0);
    let first = &d.findings[0];
    assert_eq!(
        (first.id.as_str(), first.subject.kind.as_str(), first.confidence),
        ("mem.reclaim", "host", Confidence::High)
    );
    assert!((first.impact - 0.3).abs() < 1e-9, "{}", first.impact);
    // 75,000 pages per second, as many as are reclaimed.
    assert_eq!((first.culprits[0].pid, first.culprits[0].share), (Some(42), 1.0));
    assert_eq!(first.actions[0].set["vm.watermark_scale_factor"], "500");
    assert!(!memory_is_cleared(&d));
}

#[test]
fn reclaim_in_the_background_is_no_shortage() {
    let d = reclaiming(1, 0);
    assert_eq!(ids(&d), [""; 0]);
    assert!(memory_is_cleared(&d), "{:?}", d.not_cleared);
    assert_eq!(d.verdict, Verdict::Healthy);
}

#[test]
fn a_program_that_waits_for_huge_pages_is_named_with_the_setting() {
    let d = reclaiming(0, 25);
    let first = &d.findings[0];
    assert_eq!(
        (first.id.as_str(), first.subject.pid, first.confidence),
        ("mem.compaction", Some(42), Confidence::High)
    );
    assert!(first.summary.contains("25 % of the time"), "{}", first.summary);
    assert_eq!(first.actions[0].set["thp.defrag"], "defer");
}
