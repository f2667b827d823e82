//! Tests that benchmarks ended early, by a signal or a kill, leave nothing behind that the next run does not remove.

use crate::fixture::{Fixture, MIB, bench, content, report, report_of, signal, until, whyslow};
use crate::skip::skip;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use whyslow_documents::bench::BenchReport;

/// Starts a benchmark that would take long, and waits until its threads measure.
fn long(args: &[&str]) -> Child {
    let mut child = start(whyslow(args));
    until("a thread that measures", || {
        assert_eq!(child.try_wait().unwrap(), None, "{args:?} has ended already");
        let threads = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
        let mut names = threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
        names.any(|name| name == "bench\n")
    });
    child
}

fn start(mut command: Command) -> Child {
    command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the mount point of the memory controller: in version 1, or in version 2 if groups below the root have it.
fn memory_hierarchy() -> Option<&'static Path> {
    let (v1, v2) = (Path::new("/sys/fs/cgroup/memory"), Path::new("/sys/fs/cgroup"));
    let controllers = fs::read_to_string(v2.join("cgroup.subtree_control")).unwrap_or_default();
    let in_v2 = controllers.split_whitespace().any(|name| name == "memory").then_some(v2);
    v1.join("memory.limit_in_bytes").exists().then_some(v1).or(in_v2)
}

/// Starts a benchmark with a limited page cache and waits until it is in its cgroup; returns both. Skips without the
/// memory controller.
fn in_cgroup(folder: &str) -> Option<(Child, PathBuf)> {
    let Some(hierarchy) = memory_hierarchy() else {
        skip("no memory controller under /sys/fs/cgroup");
        return None;
    };
    let child = start(bench(&[folder, "--size", "8M", "--cache", "64M", "--for", "30s"]));
    let group = hierarchy.join(format!("whyslow-bench-{}", child.id()));
    until("the benchmark in its group", || {
        fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|pids| !pids.is_empty())
    });
    Some((child, group))
}

/// Returns the PIDs of its child processes.
fn children(child: &Child) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Returns true if the process is gone or a zombie.
fn has_ended(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn ctrl_c_reports_what_was_measured_and_leaves_nothing() {
    let Some(fixture) = Fixture::new() else { return };
    let name = fixture.folder.path().to_string_lossy().into_owned();
    let child = long(&["disk", &name, "--size", "8M", "--for", "30s"]);
    signal(&child, libc::SIGINT);
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let report: BenchReport = serde_json::from_slice(&out.stdout).expect("a report");
    assert!(report.interrupted);
    assert!(report.rounds.iter().all(|round| round.runs[0].seconds < 30.0));
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
}

#[test]
fn a_killed_run_leaves_at_most_a_cgroup_which_the_next_removes() {
    let Some(fixture) = Fixture::new() else { return };
    let name = fixture.folder.path().to_string_lossy().into_owned();
    let Some((mut child, group)) = in_cgroup(&name) else { return };
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
    assert!(group.exists());
    fs::write(fixture.path("data"), vec![0x5a; MIB as usize]).unwrap();
    report(&[&fixture.path("data").to_string_lossy(), "--cache", "64M"]);
    assert!(!group.exists(), "{group:?}");
}

#[test]
fn small_files_of_one_that_was_killed_are_removed_by_the_next() {
    let Some(fixture) = Fixture::new() else { return };
    let name = fixture.folder.path().to_string_lossy().into_owned();
    let mut child = start(whyslow(&["fs", &name, "--size", "512K", "--files", "1000000", "--for", "10ms"]));
    let left = fixture.path(&format!(".whyslow-bench-files-{}", child.id()));
    until("small files", || left.join("00000001").exists());
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    assert_eq!(fs::read_dir(&name).unwrap().count(), 1, "only the folder is left");
    report_of(&["fs", &name, "--size", "512K", "--files", "5", "--for", "10ms"]);
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
}

#[test]
fn contend_and_jobs_leave_no_files_when_killed() {
    let Some(fixture) = Fixture::new() else { return };
    let name = fixture.folder.path().to_string_lossy().into_owned();
    let job = whyslow_testing::file_in(std::env::temp_dir());
    fs::write(job.path(), format!("[a]\ndirectory={name}\nsize=4m\nrw=randrw\nruntime=30\ntime_based\n")).unwrap();
    let job = job.path().to_string_lossy();
    for args in [&["contend", &name, &name, "--size", "4M", "--for", "30s"][..], &["disk", "--job", &job]] {
        let mut child = long(args);
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        assert_eq!(fs::read_dir(&name).unwrap().count(), 0, "{args:?}");
    }
}

#[test]
fn a_device_is_free_again_when_its_benchmark_is_killed() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 32 * MIB);
    for _ in 0..3 {
        let mut child = long(&["disk", &device, "--for", "30s"]);
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        report(&[&device]);
    }
}

#[test]
fn layers_leaves_the_file_system_as_it_was_when_killed() {
    let Some(mut fixture) = Fixture::new() else { return };
    let device = fixture.device("a.img", 32 * MIB);
    let point = fixture.mount(&device);
    let file = Path::new(&point).join("data");
    fs::write(&file, vec![0x77; 12 * MIB as usize]).unwrap();
    let names = || fs::read_dir(&point).unwrap().map(|entry| entry.unwrap().file_name()).collect::<BTreeSet<_>>();
    let before = names();
    let mut child = long(&["layers", &point, "--for", "30s"]);
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    assert_eq!((names(), content(&file)), (before, vec![0x77; 12 * MIB as usize]));
    // Nothing holds the file system or the device any more.
    until("unmounting", || Command::new("umount").arg(&point).stderr(Stdio::null()).status().unwrap().success());
    report(&[&device]);
}

#[test]
fn memory_and_cpu_leave_no_process_and_no_setting_when_killed() {
    const SETTINGS: [&str; 4] = [
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/proc/sys/vm/nr_hugepages",
        "/proc/sys/kernel/sched_rt_runtime_us",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    ];
    let settings = || SETTINGS.map(|path| fs::read_to_string(path).ok());
    let before = settings();
    for args in [&["memory", "--size", "1M", "--for", "60s"][..], &["cpu", "--for", "60s"]] {
        let mut child = long(args);
        let children = children(&child);
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        until("the end of its processes", || children.iter().all(|pid| has_ended(pid)));
        assert_eq!(settings(), before, "{args:?}");
    }
}

#[test]
fn ctrl_c_ends_memory_and_cpu_at_once() {
    for args in [&["memory", "--size", "1M", "--for", "60s"][..], &["cpu", "--for", "60s"]] {
        let child = long(args);
        signal(&child, libc::SIGINT);
        let asked = Instant::now();
        let out = child.wait_with_output().unwrap();
        assert!(asked.elapsed() < Duration::from_secs(30), "{args:?}");
        let report: BenchReport = serde_json::from_slice(&out.stdout).expect("a report");
        assert!(report.interrupted && out.status.success(), "{args:?}");
    }
}

#[test]
fn the_partner_process_of_context_switches_ends_with_a_killed_run() {
    let mut child = start(whyslow(&["cpu", "--for", "50ms"]));
    let mut partners = Vec::new();
    until("a process to hand over to", || {
        assert_eq!(child.try_wait().unwrap(), None, "it has ended already");
        partners = children(&child);
        !partners.is_empty()
    });
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    until("the end of the other process", || partners.iter().all(|pid| has_ended(pid)));
}

#[test]
fn sigterm_and_sighup_clean_up_and_set_the_exit_status() {
    let Some(fixture) = Fixture::new() else { return };
    let name = fixture.folder.path().to_string_lossy().into_owned();
    let small = ["fs", &name, "--size", "512K", "--files", "1000000", "--for", "10ms"];
    for (ended_by, status) in [(libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let child = start(whyslow(&small));
        let made = fixture.path(&format!(".whyslow-bench-files-{}", child.id()));
        until("small files", || made.join("00000001").exists());
        signal(&child, ended_by);
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(status), "{}", String::from_utf8_lossy(&out.stderr));
        let report: BenchReport = serde_json::from_slice(&out.stdout).expect("a report");
        assert!(report.interrupted);
        assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
    }
    let Some((child, group)) = in_cgroup(&name) else { return };
    signal(&child, libc::SIGTERM);
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(143), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(!group.exists(), "{group:?}");
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
}
