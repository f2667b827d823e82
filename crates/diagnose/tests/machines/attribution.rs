//! Attribution of findings to processes, as far as these are visible.

use crate::{RULES, SECOND, cpu, disk, found, judged, key, machine, pressure, two_cpus, window};
use whyslow_diagnose::{RuleBook, diagnose};
use whyslow_documents::diagnosis::{Action, ActionKind, Basis, Confidence, Diagnosis, Finding, Origin, Verdict};
use whyslow_model::catalogue::*;
use whyslow_model::key::{MachineKey, MountTask, Offspring, TaskKey};
use whyslow_model::snapshot::{ReadOutcome, Snapshot, SourceReport};

const ROOT: &str = "run as root (or with CAP_SYS_PTRACE)";

/// Adds two CPUs that are always in use and for which tasks wait.
fn busy(t: u64, s: &mut Snapshot) {
    two_cpus(t, s, 100, 0);
    pressure(t, s, 98, 0, 90);
}

/// Adds a disk with 16 small reads in flight all the time.
fn full_disk(t: u64, s: &mut Snapshot) {
    s.block.disk.push(disk(t, "sda", 1600, 4096, 16.0));
    s.block.queue.push(Queue { max_request: (1280_u64 << 10).into(), ..Queue::new("sda".into()) });
}

/// Adds a process with this percentage of a CPU; `read` is the bytes it reads per second, if its I/O may be read.
fn process(t: u64, s: &mut Snapshot, pid: u32, name: &str, cpu: u64, read: Option<u64>) {
    let mut row = ProcessRow {
        command: name.into(),
        state: "R".into(),
        user: (t * SECOND * cpu / 100).into(),
        system: 0.into(),
        run_delay: (t * SECOND * 60 / 100 * u64::from(cpu > 0)).into(),
        nice: 0.0.into(),
        threads: 1.0.into(),
        kernel_thread: 0.0.into(),
        ..ProcessRow::new(key(pid))
    };
    if let Some(read) = read {
        (row.read_bytes, row.write_bytes) = ((t * read).into(), 0.into());
    }
    s.task.process.push(row.into());
}

fn refused(s: &mut Snapshot, source: &str, why: &str) {
    let outcome = ReadOutcome::NotPermitted { why: why.into(), remedy: ROOT.into() };
    s.sources.push(SourceReport { source: source.into(), outcome, ..SourceReport::default() });
}

fn observer(s: &mut Snapshot, pid: u32) {
    s.kernel.observer.push(Observer { pid: f64::from(pid).into(), ..Observer::new(MachineKey) });
}

fn finding<'d>(d: &'d Diagnosis, id: &str) -> &'d Finding {
    found(d, id)
        .unwrap_or_else(|| panic!("{id} is not among {:?}", d.findings.iter().map(Finding::key).collect::<Vec<_>>()))
}

fn shares(finding: &Finding) -> Vec<(&str, f64)> {
    finding.culprits.iter().map(|c| (c.name.as_str(), (c.share * 100.0).round() / 100.0)).collect()
}

#[test]
fn what_the_observer_uses_itself_is_its_cost_and_no_finding() {
    let found = |is_observer: bool| {
        let d = machine(|t, s| {
            s.processor.cpu.extend([cpu(t, 0, 99, 0), cpu(t, 1, 1, 0)]);
            pressure(t, s, 0, 0, 0);
            let row = ProcessRow {
                command: "whyslow".into(),
                threads: 1.into(),
                user: (t * SECOND * 98 / 100).into(),
                system: 0.into(),
                run_delay: 0.into(),
                ..ProcessRow::new(key(7))
            };
            s.task.process.push(row.into());
            if is_observer {
                observer(s, 7);
            }
        });
        d.findings.iter().any(|finding| finding.id == "cpu.single_thread")
    };
    assert_eq!([found(false), found(true)], [true, false]);
}

#[test]
fn who_sees_only_own_io_blames_nobody_for_that_of_others() {
    let d = machine(|t, s| {
        full_disk(t, s);
        busy(t, s);
        process(t, s, 7, "whyslow", 1, Some(20_000));
        process(t, s, 8, "editor", 1, Some(30_000));
        process(t, s, 9, "database", 5, None);
        observer(s, 7);
        refused(s, "tasks", "I/O of 1 process of other users");
    });
    for finding in d.findings.iter().filter(|finding| finding.id.starts_with("disk.")) {
        assert_eq!(shares(finding), [], "{}", finding.id);
    }
    let finding = finding(&d, "disk.small_io");
    let gap = finding.unattributed.as_ref().expect("the reason");
    assert!(gap.why.contains("other users") && gap.remedy == ROOT, "{gap:?}");
    assert!(gap.share.is_some_and(|share| share > 0.99), "{gap:?}");
    assert!(!finding.actions.iter().any(|a| a.text.contains("unidentified")), "{:?}", finding.actions);
    let identify = finding.actions.iter().find(|a| a.kind == ActionKind::Diagnostic && a.text.contains(ROOT));
    assert!(identify.is_some(), "{:?}", finding.actions);
}

/// Waiting for asynchronous I/O is not part of the pressure, and another user's system calls cannot be read.
#[test]
fn a_busy_disk_is_found_though_nobody_is_seen_to_wait_for_it() {
    let with = |is_refused: bool| {
        machine(move |t, s| {
            two_cpus(t, s, 10, 0);
            pressure(t, s, 0, 0, 0);
            full_disk(t, s);
            process(t, s, 8, "database", 5, None);
            if is_refused {
                refused(s, "tasks", "I/O of 1 process of other users");
            }
        })
    };
    let d = with(true);
    let found = finding(&d, "disk.bound");
    assert_eq!((found.subject.name.as_str(), found.confidence), ("sda", Confidence::Low));
    assert_eq!(d.verdict, Verdict::Undetermined);
    assert_eq!(shares(found), []);
    assert!(found.unattributed.as_ref().is_some_and(|gap| gap.remedy == ROOT), "{found:?}");
    assert!(d.ruled_out.iter().all(|entry| entry.id != "disk"), "{:?}", d.ruled_out);
    assert!(with(false).findings.iter().all(|finding| finding.id != "disk.bound"));
}

/// Waiting for asynchronous I/O is not part of the pressure.
#[test]
fn where_waiting_is_not_seen_the_pressure_is_a_lower_bound() {
    let lost = |is_refused: bool| {
        let d = machine(move |t, s| {
            two_cpus(t, s, 10, 0);
            pressure(t, s, 0, 0, 25);
            s.block.disk.push(disk(t, "sda", 5500, 262_144, 127.0));
            process(t, s, 8, "database", 5, None);
            if is_refused {
                refused(s, "tasks", "I/O of 1 process of other users");
            }
        });
        let found = finding(&d, "disk.saturated");
        (found.impact, found.impact_is)
    };
    assert_eq!(lost(true), (0.25, Basis::AtLeast));
    assert_eq!(lost(false), (0.25, Basis::Measured));
}

#[test]
fn a_share_is_of_what_the_device_did() {
    let d = machine(|t, s| {
        full_disk(t, s);
        busy(t, s);
        process(t, s, 8, "database", 1, Some(1600 * 4096 * 7 / 10));
        process(t, s, 9, "editor", 1, Some(1600 * 4096 / 20));
    });
    let finding = finding(&d, "disk.small_io");
    assert_eq!(shares(finding), [("database", 0.7), ("editor", 0.05)]);
    assert_eq!(finding.unattributed.as_ref().and_then(|gap| gap.share).map(|s| (s * 100.0).round()), Some(25.0));
}

#[test]
fn processes_of_one_program_are_added_up_over_control_groups_but_not_over_units() {
    let d = machine(|t, s| {
        busy(t, s);
        for (pid, name, cpu, group) in [
            (8, "build", 30, "/a"),
            (9, "build", 50, "/b"),
            (10, "build", 20, "/b"),
            (11, "web", 40, "/system.slice/web@1.service"),
            (12, "web", 36, "/system.slice/web@2.service"),
        ] {
            process(t, s, pid, name, cpu, None);
            s.task.process.last_mut().unwrap().cgroup = group.into();
        }
    });
    let finding = finding(&d, "cpu.saturated");
    // Shares of two CPUs.
    assert_eq!(shares(finding), [("build", 0.5), ("web", 0.2), ("web", 0.18)]);
    let [build, first, second] = &finding.culprits[..] else { panic!("{:?}", finding.culprits) };
    let groups = build.cgroups.iter().map(|part| (&*part.cgroup, (part.share * 100.0).round()));
    assert_eq!(groups.collect::<Vec<_>>(), [("/b", 35.0), ("/a", 15.0)]);
    assert_eq!((build.cgroup.as_deref(), &*build.pids), (Some("/b"), &[9, 8, 10][..]));
    assert_eq!([first, second].map(|web| web.unit.as_deref()), [Some("web@1"), Some("web@2")]);
    assert!(first.cgroups.is_empty() && first.cgroup.is_some());
    assert!(finding.summary.contains("build (×3) uses the most"), "{}", finding.summary);
}

#[test]
fn cpu_time_of_processes_that_are_hidden_is_not_spread_over_those_that_are_seen() {
    let with = |visible: u64| {
        machine(move |t, s| {
            busy(t, s);
            process(t, s, 8, "editor", visible, Some(0));
            refused(s, "tasks", "all of 9 processes of other users (/proc is mounted with hidepid)");
        })
    };
    let d = with(20);
    let saturated = finding(&d, "cpu.saturated");
    assert_eq!(shares(saturated), []);
    assert!(saturated.unattributed.as_ref().is_some_and(|gap| gap.why.contains("hidepid")), "{saturated:?}");
    assert!(!saturated.summary.contains("uses the most"), "{}", saturated.summary);
    assert_eq!(shares(finding(&with(150), "cpu.saturated")), [("editor", 0.75)]);
}

#[test]
fn who_starts_short_lived_processes_is_seen_without_privilege() {
    let d = machine(|t, s| {
        busy(t, s);
        s.processor.system.push(System { forks: (t * 500).into(), ..System::new(MachineKey) });
        // The first one's I/O may not be read either.
        for (pid, name, percent) in [(8, "watchdog", 60), (9, "make", 20)] {
            process(t, s, pid, name, 1, None);
            let row = s.task.process.last_mut().expect("the process");
            row.children_user = (t * SECOND * percent / 100).into();
            row.children_system = 0.into();
        }
        refused(s, "tasks", "I/O of 2 processes of other users");
        refused(s, "exits", "BPF");
    });
    let finding = finding(&d, "cpu.short_lived");
    assert_eq!((shares(finding), &finding.unattributed), (vec![("watchdog", 0.75), ("make", 0.25)], &None));
}

/// Returns the finding about children of `make` that no sample saw, while the kernel counts 60 new processes and threads per
/// second.
fn short_lived(ended_a_second: u64) -> Finding {
    let d = machine(|t, s| {
        two_cpus(t, s, 60, 0);
        s.processor.system.push(System { forks: (t * 60).into(), ..System::new(MachineKey) });
        process(t, s, 9, "make", 1, None);
        s.task.exited_children = vec![ExitedChildren {
            ended: ended_a_second.into(),
            user: (SECOND / 2).into(),
            ..ExitedChildren::new(Offspring { parent: key(9), name: "cc".into() })
        }];
    });
    finding(&d, "cpu.short_lived").clone()
}

#[test]
fn threads_that_compilers_start_are_not_short_lived_processes() {
    let storm = short_lived(60);
    assert_eq!(storm.confidence, Confidence::High);
    assert!(storm.summary.contains("60/s"), "{}", storm.summary);
    let build = short_lived(6);
    assert_eq!(build.confidence, Confidence::Low);
    assert!(build.summary.contains("6.00/s"), "{}", build.summary);
}

#[test]
fn processes_that_are_hidden_wait_for_a_cpu_too() {
    let d = machine(|t, s| {
        busy(t, s);
        process(t, s, 8, "editor", 0, Some(0));
        refused(s, "tasks", "all of 9 processes of other users (/proc is mounted with hidepid)");
    });
    let saturated = finding(&d, "cpu.saturated");
    assert!(saturated.impact > 0.9 && saturated.confidence != Confidence::Low, "{saturated:?}");
    assert!(!saturated.evidence.iter().any(|e| e.metric.starts_with("cpu.waiting")), "{:?}", saturated.evidence);
}

#[test]
fn where_nobody_is_named_the_action_is_to_find_out_who_it_is() {
    let d = machine(|t, s| {
        full_disk(t, s);
        busy(t, s);
    });
    let command = |action: &Action| action.try_command.clone().filter(|_| action.kind == ActionKind::Diagnostic);
    for (id, tool) in [("disk.small_io", "pidstat -d 1"), ("cpu.saturated", "pidstat -u 1")] {
        let actions = &finding(&d, id).actions;
        assert!(actions.iter().any(|a| command(a).as_deref() == Some(tool)), "{id}: {actions:?}");
        assert!(!actions.iter().any(|a| a.text.contains("unidentified")), "{id}: {actions:?}");
    }
}

#[test]
fn a_process_that_came_late_has_the_share_of_the_whole_window() {
    let d = machine(|t, s| {
        busy(t, s);
        process(t, s, 8, "server", 150, Some(0));
        // Two of ten seconds at full speed.
        if t >= 8 {
            process(t - 8, s, 9, "job", 100, Some(0));
        }
    });
    let shares = shares(finding(&d, "cpu.saturated"));
    assert_eq!(shares[0], ("server", 0.75));
    assert_eq!(shares[1], ("job", 0.1));
}

#[test]
fn the_observer_and_its_children_are_not_to_blame() {
    let d = machine(|t, s| {
        busy(t, s);
        process(t, s, 7, "whyslow", 120, Some(0));
        process(t, s, 9, "server", 60, Some(0));
        let mut child = s.task.process.pop().expect("the server");
        process(t, s, 10, "whyslow-helper", 10, Some(0));
        let mut helper = s.task.process.pop().expect("the helper");
        helper.parent = 7.0.into();
        child.parent = 1.0.into();
        s.task.process.extend([child, helper]);
        observer(s, 7);
    });
    assert_eq!(shares(finding(&d, "cpu.saturated")), [("server", 0.3)], "of all that was used, its own included");
}

/// Adds a full file system; `read` is the outcome of reading its open files.
fn full_mount(s: &mut Snapshot, read: Option<ReadOutcome>) {
    s.block.mount.push(Mount {
        size: (1_u64 << 30).into(),
        free: 0.into(),
        available: 0.into(),
        read_only: 0.into(),
        kind: "ext4".into(),
        ..Mount::new("/data".into())
    });
    s.sources.extend(read.map(|outcome| SourceReport {
        source: "proc/fd".into(),
        outcome,
        asked: true,
        ..SourceReport::default()
    }));
}

fn writer(s: &mut Snapshot, pid: u32, mount: &str, bytes: u64) {
    let on = MountTask { mount: mount.into(), task: key(pid) };
    s.block.writer.push(Writer { files: 1.into(), bytes: bytes.into(), ..Writer::new(on) });
}

#[test]
fn a_full_file_system_is_who_has_files_open_on_it() {
    let d = machine(|t, s| {
        full_mount(s, Some(ReadOutcome::Read));
        process(t, s, 8, "backup", 50, Some(0));
        process(t, s, 9, "logger", 1, Some(0));
        process(t, s, 10, "old", 1, Some(0));
        s.task.process[0].write_bytes = (t * 500_000_000).into();
        writer(s, 9, "/data", 900 << 20);
        writer(s, 10, "/data", 100 << 20);
        writer(s, 8, "/backup", 100 << 30);
    });
    assert_eq!(shares(finding(&d, "fs.full")), [("logger", 0.9), ("old", 0.1)]);
}

#[test]
fn what_grows_comes_before_what_is_large() {
    let d = machine(|t, s| {
        full_mount(s, Some(ReadOutcome::Read));
        process(t, s, 9, "logger", 1, Some(0));
        process(t, s, 10, "old", 1, Some(0));
        writer(s, 9, "/data", (100 << 20) + (t << 20));
        writer(s, 10, "/data", 900 << 20);
    });
    assert_eq!(finding(&d, "fs.full").culprits[0].name, "logger");
}

#[test]
fn nobody_is_named_where_nobody_has_a_file_open() {
    let full = |outcome: Option<ReadOutcome>| {
        let d = machine(move |t, s| {
            full_mount(s, outcome.clone());
            process(t, s, 8, "backup", 50, Some(0));
            s.task.process[0].write_bytes = (t * 500_000_000).into();
        });
        let finding = finding(&d, "fs.full");
        assert_eq!(shares(finding), []);
        finding.unattributed.clone().expect("the reason")
    };
    assert_eq!(full(Some(ReadOutcome::Read)).why, "no process has a file open for writing on /data");
    assert_eq!(full(None).why, "proc/fd was not read");
    let refused =
        ReadOutcome::NotPermitted { why: "open files of 5 processes of other users".into(), remedy: ROOT.into() };
    assert_eq!(full(Some(refused)).remedy, ROOT);
}

#[test]
fn who_cannot_see_all_open_files_blames_nobody_for_a_full_file_system() {
    let d = machine(|t, s| {
        let why = "open files of 5 processes of other users".into();
        full_mount(s, Some(ReadOutcome::NotPermitted { why, remedy: ROOT.into() }));
        process(t, s, 9, "editor", 1, Some(0));
        process(t, s, 10, "database", 1, None);
        refused(s, "tasks", "I/O of 1 process of other users");
        writer(s, 9, "/data", 4096);
    });
    let finding = finding(&d, "fs.full");
    assert_eq!(shares(finding), []);
    let why = finding.unattributed.as_ref().map(|gap| gap.why.as_str());
    assert_eq!(why, Some("cannot read open files of 5 processes of other users"));
}

/// Adds CPUs that two workers of a service fill, and a server that waits behind them.
fn filled_by_workers(t: u64, s: &mut Snapshot) {
    only_workers(t, s);
    process(t, s, 7, "web", 5, Some(0));
}

/// Adds CPUs that two workers of a service fill.
fn only_workers(t: u64, s: &mut Snapshot) {
    busy(t, s);
    for pid in [8, 9] {
        process(t, s, pid, "worker", 95, Some(0));
        s.task.process.last_mut().expect("the worker").cgroup = "/system.slice/queue.service".into();
    }
}

#[test]
fn a_command_changes_only_processes_that_last() {
    let action = |d: &Diagnosis| {
        let first = finding(d, "cpu.saturated").actions[0].clone();
        (first.text, first.try_command)
    };
    let (_, command) = action(&machine(filled_by_workers));
    assert_eq!(command.as_deref(), Some("whyslow try process.nice@8,9=10 --metric cpu.waiting_normal"));
    // Each compiler lives for two samples.
    let (text, command) = action(&machine(|t, s| {
        busy(t, s);
        process(t, s, 7, "web", 5, Some(0));
        for pid in [100, 200].map(|first| first + t as u32 / 2) {
            process(t % 2 + 1, s, pid, "cc1", 95, Some(0));
            s.task.process.last_mut().expect("the compiler").task.start = 101 + 200 * (t / 2);
        }
    }));
    assert!(command.is_none() && text.contains("its processes come and go"), "{command:?} {text}");
}

/// A priority only helps processes that wait behind the culprit.
#[test]
fn a_lower_priority_is_advised_only_if_something_else_waits() {
    let actions = |of: fn(u64, &mut Snapshot)| finding(&machine(of), "cpu.saturated").actions.clone();
    assert!(actions(filled_by_workers)[0].text.starts_with("Lower the CPU priority of worker (×2)"));
    let alone = actions(only_workers);
    assert!(alone[0].text.starts_with("Run fewer of worker (×2) at once"), "{alone:?}");
    assert!(alone.iter().all(|action| !action.text.contains("Lower the CPU priority")), "{alone:?}");
    assert_eq!(alone[0].try_command.as_deref(), Some("whyslow profile --pid 8"));
}

#[test]
fn a_lower_priority_is_not_advised_where_it_is_low_already() {
    let actions = |nice: f64, policy: &'static str| {
        let d = machine(move |t, s| {
            filled_by_workers(t, s);
            for row in s.task.process.iter_mut().filter(|row| row.command.get() == Some("worker")) {
                (row.nice, row.policy) = (nice.into(), policy.into());
            }
            // Other processes wait, too: not only niced work does.
            for pid in 20..24 {
                process(t, s, pid, "web", 1, Some(0));
            }
        });
        let found = finding(&d, "cpu.saturated");
        assert_eq!(found.culprits[0].name, "worker");
        found.actions.clone()
    };
    assert!(actions(0.0, "NORMAL")[0].text.starts_with("Lower the CPU priority of worker (×2)"));
    for (nice, policy) in [(10.0, "NORMAL"), (0.0, "IDLE")] {
        let all = actions(nice, policy);
        assert!(all.iter().all(|action| !action.text.contains("Lower the CPU priority")), "{all:?}");
        assert!(all[0].text.ends_with("its CPU priority is low already"), "{all:?}");
        assert!(all.iter().all(|action| action.try_command.iter().all(|c| !c.contains("process.nice"))), "{all:?}");
    }
}

/// Gives every process of a name this control group, and the group a CPU weight.
fn in_weighted_group(s: &mut Snapshot, name: &str, path: &str) {
    for row in s.task.process.iter_mut().filter(|row| row.command.get() == Some(name)) {
        row.cgroup = path.into();
    }
    if s.cgroup.group.iter().all(|group| &*group.path != path) {
        s.cgroup.group.push(Group { weight: 100.0.into(), ..Group::new(path.into()) });
    }
}

#[test]
fn a_nice_value_is_not_advised_where_it_does_not_reach_those_that_wait() {
    let actions = |of: fn(u64, &mut Snapshot)| finding(&machine(of), "cpu.saturated").actions.clone();
    let renices =
        |all: &[Action]| all.iter().any(|action| action.try_command.iter().any(|c| c.contains("process.nice")));
    // In one group with a weight, and in two.
    let together = actions(|t, s| {
        filled_by_workers(t, s);
        in_weighted_group(s, "worker", "/all");
        in_weighted_group(s, "web", "/all");
    });
    assert!(renices(&together), "{together:?}");
    let apart = actions(|t, s| {
        filled_by_workers(t, s);
        in_weighted_group(s, "worker", "/a");
        in_weighted_group(s, "web", "/b");
    });
    assert!(!renices(&apart) && apart[0].text.contains("a lower CPU weight"), "{apart:?}");
    // With autogroups, outside of any group.
    let autogrouped = actions(|t, s| {
        filled_by_workers(t, s);
        s.kernel.setting.push(Setting { value: "1".into(), ..Setting::new("kernel.sched_autogroup_enabled".into()) });
    });
    assert!(!renices(&autogrouped) && autogrouped[0].text.contains("within its session"), "{autogrouped:?}");
}

#[test]
fn a_command_stays_within_one_control_group() {
    let d = machine(|t, s| {
        busy(t, s);
        process(t, s, 7, "web", 5, Some(0));
        for (pid, group, cpu) in [(8, "/a", 60), (9, "/a", 60), (10, "/b", 70)] {
            process(t, s, pid, "worker", cpu, Some(0));
            s.task.process.last_mut().expect("the worker").cgroup = group.into();
        }
    });
    let finding = finding(&d, "cpu.saturated");
    assert_eq!(finding.culprits[0].pids.len(), 3, "one culprit");
    let command = finding.actions[0].try_command.as_deref();
    assert_eq!(command, Some("whyslow try process.nice@8,9=10 --metric cpu.waiting_normal"));
}

#[test]
fn a_lower_io_priority_is_not_advised_where_it_is_the_lowest() {
    let actions = |policy: &'static str| {
        let d = machine(move |t, s| {
            full_disk(t, s);
            s.block.disk.last_mut().expect("the disk").read_bytes = (t * 1600 * 65536).into();
            two_cpus(t, s, 5, 0);
            pressure(t, s, 0, 0, 95);
            for (pid, name, rate, policy) in [(8, "backup", 1500, policy), (9, "database", 100, "NORMAL")] {
                process(t, s, pid, name, 1, Some(rate * 65536));
                let row = s.task.process.last_mut().expect("the process");
                (row.policy, row.state) = (policy.into(), "D".into());
            }
        });
        finding(&d, "disk.saturated").actions.clone()
    };
    assert!(actions("NORMAL")[0].text.starts_with("Lower the I/O priority of backup"), "{:?}", actions("NORMAL"));
    let idle = actions("IDLE");
    assert!(idle.iter().all(|action| !action.text.contains("Lower the I/O priority")), "{idle:?}");
    assert!(idle[0].text.ends_with("its I/O priority is the lowest already"), "{idle:?}");
}

/// The unattributed part is assumed to belong to others, which wait as much as the visible ones: hardly, if those hardly do.
#[test]
fn what_is_not_attributed_waits_as_much_as_what_is() {
    let advice = |waits: u64| {
        let d = machine(move |t, s| {
            two_cpus(t, s, 100, 0);
            pressure(t, s, 60, 0, 0);
            process(t, s, 8, "worker", 170, Some(0));
            s.task.process[0].run_delay = (t * SECOND * waits / 100).into();
        });
        let found = finding(&d, "cpu.saturated");
        assert_eq!(shares(found), [("worker", 0.85)]);
        found.actions[0].text.clone()
    };
    assert!(advice(30).starts_with("Run fewer of worker"), "{}", advice(30));
    assert!(advice(100).starts_with("Lower the CPU priority of worker"), "{}", advice(100));
}

#[test]
fn a_setting_that_has_the_value_is_not_advised() {
    let rule = "id = 'test.setting'\nscope = 'host'\nmeans = 'A test.'\nwhen = 'cpu.busy > 0.1'\nimpact = '0.5'\n\
                high = 'cpu.busy > 0.1'\nsummary = 'A test.'\nsources = ['x']\n\
                [[evidence]]\nsignal = 'cpu.busy'\nexpected = 'low'\n[[look_alikes]]\ntext = 'none'\n\
                [[actions]]\nkind = 'tunable'\ntext = 'Prefer caches'\nset = { 'vm.swappiness' = '10' }\n";
    let mut book = RuleBook::built_in();
    book.add("test.toml", rule).expect("a rule");
    let advised = |now: &'static str| {
        let d = judged(&book, |t, s| {
            two_cpus(t, s, 50, 0);
            s.kernel.setting.push(Setting { value: now.into(), ..Setting::new("vm.swappiness".into()) });
        });
        finding(&d, "test.setting").actions.len()
    };
    assert_eq!([advised("60"), advised("10")], [1, 0]);
}

#[test]
fn what_was_recorded_is_not_changed_by_the_numbers_that_processes_had() {
    let d = diagnose(&window(filled_by_workers), Origin::Recording, &RULES);
    let action = &finding(&d, "cpu.saturated").actions[0];
    assert_eq!(action.try_command, None);
    let expected = "Check that worker in unit queue is still running, as this happened in the past. Lower the CPU priority of worker (×2)";
    assert!(action.text.starts_with(expected), "{action:?}");
}

#[test]
fn a_thread_that_is_as_busy_as_ever_has_been_so_since_it_began() {
    let since = |began: u64| {
        let d = machine(|t, s| {
            s.processor.cpu.extend([cpu(t, 0, 100, 0), cpu(t, 1, 0, 0)]);
            pressure(t, s, 0, 0, 0);
            let row = ProcessRow {
                command: "server".into(),
                state: "R".into(),
                user: ((60 + t) * SECOND).into(),
                system: 0.into(),
                run_delay: 0.into(),
                nice: 0.0.into(),
                threads: 1.0.into(),
                kernel_thread: 0.0.into(),
                ..ProcessRow::new(TaskKey { start: began, ..key(8) })
            };
            s.task.process.push(row.into());
            s.boot_ns += 100 * SECOND;
        });
        finding(&d, "cpu.single_thread").since.clone()
    };
    // It has run for 70 s of the 71 since it started at 40 s; of 109 s since it started at 2 s, it was idle for some.
    let since_start = since(4000).expect("since it began");
    assert!((since_start.seconds - 71.0).abs() < 1e-6 && since_start.start.is_some(), "{since_start:?}");
    assert_eq!(since(200), None);
}

#[test]
fn findings_that_are_cut_are_counted() {
    let d = machine(|t, s| {
        busy(t, s);
        for number in 0..9 {
            s.block.mount.push(Mount {
                size: (1_u64 << 30).into(),
                free: 0.into(),
                available: 0.into(),
                read_only: 0.into(),
                kind: "ext4".into(),
                ..Mount::new(format!("/data{number}").as_str().into())
            });
        }
        process(t, s, 8, "server", 150, Some(0));
    });
    let listed: Vec<&Finding> = d.findings.iter().filter(|finding| finding.id == "fs.full").collect();
    assert_eq!((listed.len(), listed.iter().map(|finding| finding.more).sum::<usize>()), (4, 5));
}

/// The bytes moved per switch are then unreadable, but each switch carries only 0.3 us of work.
#[test]
fn context_switches_of_another_users_program_are_found_though_its_io_is_refused() {
    let d = machine(|t, s| {
        two_cpus(t, s, 36, 0);
        pressure(t, s, 0, 0, 0);
        s.task.process.push(Process::from(ProcessRow {
            command: "ring".into(),
            state: "R".into(),
            user: (t * SECOND * 15 / 1000).into(),
            system: (t * SECOND * 705 / 1000).into(),
            voluntary_switches: (t * 47_000).into(),
            involuntary_switches: 0.into(),
            threads: 1.0.into(),
            kernel_thread: 0.0.into(),
            ..ProcessRow::new(key(8))
        }));
        refused(s, "tasks", "I/O of 1 process of other users");
    });
    assert_eq!((d.findings[0].id.as_str(), d.findings[0].confidence), ("cpu.context_switches", Confidence::Medium));
    let kernel_time = finding(&d, "cpu.system_time");
    assert_eq!(kernel_time.explained_by, Some(d.findings[0].key()));
}
