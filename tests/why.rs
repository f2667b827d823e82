//! `whyslow --pid`, `-- COMMAND` and their kin from the outside.

mod skip;

use std::fs;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use whyslow_model::diagnosis::Diagnosis;
use whyslow_model::time_breakdown::{TimeBreakdown, TimeKind};
use whyslow_testing::ends_with_test;

fn whyslow(args: &[&str]) -> Output {
    ends_with_test(Command::new(env!("CARGO_BIN_EXE_whyslow")).args(args).stdin(Stdio::null())).output().unwrap()
}

fn breakdown(args: &[&str]) -> TimeBreakdown {
    let out = whyslow(&[&["--json"], args].concat());
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    let document: Diagnosis = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    document.time_breakdown.unwrap()
}

fn share(breakdown: &TimeBreakdown, kinds: &[TimeKind]) -> f64 {
    breakdown.parts.iter().filter(|part| kinds.contains(&part.kind)).map(|part| part.share).sum()
}

fn assert_adds_up(breakdown: &TimeBreakdown) {
    let sum: f64 = breakdown.parts.iter().map(|part| part.share).sum();
    assert!((0.98..=1.02).contains(&sum), "{sum}: {breakdown:#?}");
}

const RUNNING: [TimeKind; 3] = [TimeKind::User, TimeKind::Kernel, TimeKind::CpuWait];

#[test]
fn a_command_is_run_and_explained() {
    if !skip::is_root() {
        return;
    }
    let spins = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; exit 3";
    let out = whyslow(&["--json", "--", "sh", "-c", spins]);
    // The command's output does not get between.
    assert!(String::from_utf8_lossy(&out.stderr).contains("done\n"));
    let document: Diagnosis = serde_json::from_slice(&out.stdout).unwrap();
    let found = document.time_breakdown.unwrap();
    assert_adds_up(&found);
    assert_eq!(found.exit_status.as_deref(), Some("exit status: 3"));
    assert_eq!((found.threads, found.chain.len()), (1, 0));
    assert!(share(&found, &RUNNING) > 0.9, "{found:#?}");
    assert!(found.target.starts_with("sh -c i=0"), "{}", found.target);
    assert!(found.conclusion.contains("a CPU"), "{}", found.conclusion);
    assert!(found.advice.is_some_and(|advice| advice.saves > 0.2));
    assert_eq!(found.cost.lost, 0);
}

#[test]
fn the_children_of_a_command_belong_to_it() {
    if !skip::is_root() {
        return;
    }
    let found = breakdown(&["--", "sh", "-c", "sleep 0.5; sleep 0.5 & wait"]);
    assert_adds_up(&found);
    assert_eq!(found.threads, 3, "{found:#?}");
    let part = |kind| found.parts.iter().find(|part| part.kind == kind).unwrap_or_else(|| panic!("{found:#?}"));
    // The shell waits for the first sleep with wait4(2), and for the signal that the second one's end sends it.
    let (child, asleep) = (part(TimeKind::Child), part(TimeKind::Sleep));
    assert!(child.seconds > 0.4 && asleep.seconds > 1.4, "{found:#?}");
    assert!(child.by.iter().chain(&asleep.by).all(|by| by.kind == "member"), "{child:#?} {asleep:#?}");
}

#[test]
fn the_program_that_is_waited_for_is_followed() {
    if !skip::is_root() {
        return;
    }
    let folder = whyslow_testing::folder();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // A line takes the writer a while on the CPU.
    let writes = "exec >$1; while :; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo line; done";
    let mut writer = ends_with_test(Command::new("sh").args(["-c", writes, "writer"]).arg(&pipe)).spawn().unwrap();
    let reads = format!("exec <{}; i=0; while [ $i -lt 60 ] && read line; do i=$((i+1)); done", pipe.display());
    let found = breakdown(&["--", "sh", "-c", &reads]);
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_adds_up(&found);
    assert!(share(&found, &[TimeKind::Pipe]) > 0.6, "{found:#?}");
    let last = found.chain.last().unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!((found.chain.len(), last.pid), (2, writer.id()), "{found:#?}");
    assert!(RUNNING.contains(&last.kind), "{last:?}");
    assert!(
        found.conclusion.contains(&format!("in the end the time goes to sh (pid {})", writer.id())),
        "{}",
        found.conclusion
    );
}

#[test]
fn a_process_and_its_control_group_are_explained_alike() {
    if !skip::is_root() {
        return;
    }
    let mut sleeper = ends_with_test(Command::new("sleep").arg("60")).spawn().unwrap();
    let groups = fs::read_to_string(format!("/proc/{}/cgroup", sleeper.id())).unwrap();
    let group = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2)).max_by_key(|path| path.len()).unwrap();
    let pid = sleeper.id().to_string();
    let of_process = breakdown(&["--for", "1s", "--pid", &pid]);
    let of_group = breakdown(&["--for", "1s", "--cgroup", group]);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(of_process.target, format!("sleep (pid {pid})"));
    assert_eq!(of_process.threads, 1);
    assert!(share(&of_process, &[TimeKind::Sleep]) > 0.98, "{of_process:#?}");
    assert!(of_process.conclusion.contains("has nothing to do"), "{}", of_process.conclusion);
    assert_adds_up(&of_process);
    assert_adds_up(&of_group);
    // This test is in the same group.
    assert!(of_group.threads > 1, "{of_group:#?}");
}

#[test]
fn a_process_that_ends_ends_the_watching() {
    if !skip::is_root() {
        return;
    }
    let mut sleeper = ends_with_test(Command::new("sleep").arg("12")).spawn().unwrap();
    let pid = sleeper.id().to_string();
    let reaper = std::thread::spawn(move || sleeper.wait());
    let found = breakdown(&["--for", "60s", "--pid", &pid]);
    reaper.join().unwrap().unwrap();
    assert!(Duration::from_secs_f64(found.seconds) < Duration::from_secs(30), "{}", found.seconds);
}

#[test]
fn wrong_targets_are_refused_with_a_line_that_says_why() {
    for (args, words) in [
        (&["--pid", "0"][..], "--pid"),
        (&["--pid", "1", "--unit", "x"], "cannot be used with"),
        (&["--for", "1s", "--", "true"], "cannot be used with"),
        (&["--no-bpf", "--pid", "1"], "needs BPF"),
    ] {
        let out = whyslow(args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), said.lines().count(), out.stdout.len()), (Some(2), 1, 0), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
    if !skip::is_root() {
        return;
    }
    for (args, words) in [
        (&["--pid", "4194304"][..], "there is no process 4194304"),
        (&["--unit", "no-such-unit.service"], "no process is in the unit no-such-unit.service"),
        (&["--container", "no-such-container"], "no process is in a container no-such-container"),
        (&["--cgroup", "/no/such/group"], "no process is in the control group /no/such/group"),
        (&["--", "/no/such/program"], "cannot run /no/such/program"),
    ] {
        let out = whyslow(args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!((out.status.code(), said.lines().count(), out.stdout.len()), (Some(2), 1, 0), "{args:?}: {said}");
        assert!(said.contains(words), "{args:?}: {said}");
    }
}
