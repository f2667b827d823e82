//! Benchmarks that are ended before their time, gently or not, leave nothing behind that the next run does not remove.

use crate::stage::{MIB, Stage, bench, content, report, report_of, whyslow};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use whyslow_model::bench::Report;

/// A benchmark that would take long, once it is at work.
fn long(args: &[&str]) -> Child {
    let mut child = start(bench(&[args, &["--for", "30s"]].concat()));
    std::thread::sleep(Duration::from_millis(1000));
    assert_eq!(child.try_wait().unwrap(), None, "it has ended already");
    child
}

fn start(mut command: Command) -> Child {
    command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until something is so, for no longer than anything takes.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < patience, "{what}: never");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn signal(child: &Child, signal: i32) {
    let pid = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: kill takes two numbers and touches no memory; the child has not been waited for, so the number is its own.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// The numbers of the processes that it, or a thread of it, has started.
fn children(child: &Child) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// One that has ended and is not waited for is a zombie.
fn has_ended(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn ctrl_c_reports_what_was_measured_and_leaves_nothing() {
    let Some(stage) = Stage::new() else { return };
    let name = stage.folder.path().to_string_lossy().into_owned();
    let child = long(&[&name, "--size", "8M"]);
    let asked = Instant::now();
    signal(&child, libc::SIGINT);
    let out = child.wait_with_output().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(10));
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let report: Report = serde_json::from_slice(&out.stdout).expect("a report");
    assert!(report.interrupted);
    assert!(report.rounds.iter().all(|round| round.runs[0].seconds < 30.0));
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
}

#[test]
fn killed_it_leaves_nothing_either() {
    let Some(stage) = Stage::new() else { return };
    let name = stage.folder.path().to_string_lossy().into_owned();
    let mut child = start(bench(&[&name, "--size", "8M", "--cache", "64M", "--for", "30s"]));
    let group = PathBuf::from(format!("/sys/fs/cgroup/memory/whyslow-bench-{}", child.id()));
    let has_groups = Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists();
    until("the benchmark in its group", || {
        !has_groups || fs::read_to_string(group.join("tasks")).is_ok_and(|t| !t.is_empty())
    });
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
    // The control group, which the kernel does not take away by itself, the next run does.
    assert_eq!(group.exists(), has_groups);
    fs::write(stage.path("data"), vec![0x5a; MIB as usize]).unwrap();
    report(&[&stage.path("data").to_string_lossy(), "--cache", "64M"]);
    assert!(!group.exists(), "{group:?}");
}

#[test]
fn small_files_of_one_that_was_killed_are_removed_by_the_next() {
    let Some(stage) = Stage::new() else { return };
    let name = stage.folder.path().to_string_lossy().into_owned();
    let mut child = start(whyslow(&["fs", &name, "--size", "512K", "--files", "1000000", "--for", "10ms"]));
    let left = stage.path(&format!(".whyslow-bench-files-{}", child.id()));
    until("small files", || left.join("00000001").exists());
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    assert_eq!(fs::read_dir(&name).unwrap().count(), 1, "only the folder is left");
    report_of(&["fs", &name, "--size", "512K", "--files", "5", "--for", "10ms"]);
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
}

#[test]
fn killed_while_targets_contend_or_a_job_runs_it_leaves_nothing() {
    let Some(stage) = Stage::new() else { return };
    let name = stage.folder.path().to_string_lossy().into_owned();
    let job = tempfile::NamedTempFile::new().unwrap();
    fs::write(job.path(), format!("[a]\ndirectory={name}\nsize=4m\nrw=randrw\nruntime=30\ntime_based\n")).unwrap();
    let job = job.path().to_string_lossy();
    for args in [&["contend", &name, &name, "--size", "4M", "--for", "30s"][..], &["disk", "--job", &job]] {
        let mut child = start(whyslow(args));
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(child.try_wait().unwrap(), None, "{args:?} has ended already");
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        assert_eq!(fs::read_dir(&name).unwrap().count(), 0, "{args:?}");
    }
}

#[test]
fn a_device_is_free_again_when_its_benchmark_is_killed() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 32 * MIB);
    for _ in 0..3 {
        let mut child = long(&[&device]);
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        report(&[&device]);
    }
}

#[test]
fn killed_among_layers_it_leaves_the_file_system_as_it_was() {
    let Some(mut stage) = Stage::new() else { return };
    let device = stage.device("a.img", 32 * MIB);
    let point = stage.mount(&device);
    let file = Path::new(&point).join("data");
    fs::write(&file, vec![0x77; 12 * MIB as usize]).unwrap();
    let names = || fs::read_dir(&point).unwrap().map(|entry| entry.unwrap().file_name()).collect::<BTreeSet<_>>();
    let before = names();
    let mut child = start(whyslow(&["layers", &point, "--for", "30s"]));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(child.try_wait().unwrap(), None, "it has ended already");
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    assert_eq!((names(), content(&file)), (before, vec![0x77; 12 * MIB as usize]));
    // Nothing holds the file system or the device any longer.
    until("unmounting", || Command::new("umount").arg(&point).stderr(Stdio::null()).status().unwrap().success());
    report(&[&device]);
}

#[test]
fn killed_while_it_measures_the_machine_it_leaves_no_process_and_no_setting() {
    const SETTINGS: [&str; 4] = [
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/proc/sys/vm/nr_hugepages",
        "/proc/sys/kernel/sched_rt_runtime_us",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    ];
    let settings = || SETTINGS.map(|path| fs::read_to_string(path).ok());
    let before = settings();
    for args in [&["memory", "--size", "1M", "--for", "60s"][..], &["cpu", "--for", "60s"]] {
        let mut child = start(whyslow(args));
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(child.try_wait().unwrap(), None, "{args:?} has ended already");
        let children = children(&child);
        signal(&child, libc::SIGKILL);
        child.wait().unwrap();
        until("the end of its processes", || children.iter().all(|pid| has_ended(pid)));
        assert_eq!(settings(), before, "{args:?}");
    }
}

#[test]
fn ctrl_c_ends_figures_of_memory_and_processors_at_once() {
    for args in [&["memory", "--size", "1M", "--for", "60s"][..], &["cpu", "--for", "60s"]] {
        let child = start(whyslow(args));
        std::thread::sleep(Duration::from_millis(700));
        signal(&child, libc::SIGINT);
        let asked = Instant::now();
        let out = child.wait_with_output().unwrap();
        assert!(asked.elapsed() < Duration::from_secs(5), "{args:?}");
        let report: Report = serde_json::from_slice(&out.stdout).expect("a report");
        assert!(report.interrupted && out.status.success(), "{args:?}");
    }
}

#[test]
fn the_process_that_is_handed_over_to_ends_with_one_that_is_killed() {
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
fn ended_by_a_service_manager_or_a_closed_terminal_it_cleans_up_and_says_so() {
    let Some(stage) = Stage::new() else { return };
    let name = stage.folder.path().to_string_lossy().into_owned();
    let small = ["fs", &name, "--size", "512K", "--files", "1000000", "--for", "10ms"];
    for (ended_by, status) in [(libc::SIGTERM, 143), (libc::SIGHUP, 129)] {
        let child = start(whyslow(&small));
        let made = stage.path(&format!(".whyslow-bench-files-{}", child.id()));
        until("small files", || made.join("00000001").exists());
        signal(&child, ended_by);
        let out = child.wait_with_output().unwrap();
        assert_eq!(out.status.code(), Some(status), "{}", String::from_utf8_lossy(&out.stderr));
        let report: Report = serde_json::from_slice(&out.stdout).expect("a report");
        assert!(report.interrupted);
        assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
    }
    if !Path::new("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists() {
        return;
    }
    let child = start(bench(&[&name, "--size", "8M", "--cache", "64M", "--for", "30s"]));
    let group = PathBuf::from(format!("/sys/fs/cgroup/memory/whyslow-bench-{}", child.id()));
    until("the benchmark in its group", || fs::read_to_string(group.join("tasks")).is_ok_and(|t| !t.is_empty()));
    signal(&child, libc::SIGTERM);
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(143), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(!group.exists(), "{group:?}");
    assert_eq!(fs::read_dir(&name).unwrap().count(), 0);
}
