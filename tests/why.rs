//! Tests of `whyslow --pid`, `-- COMMAND` and related options from the outside.

mod skip;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use tempfile::TempDir;
use whyslow_documents::diagnosis::Diagnosis;
use whyslow_documents::time_breakdown::{TimeBreakdown, TimeKind};
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
    // The command's output does not mix with the report.
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
    let programs: Vec<_> = found.programs.iter().map(|program| (program.name.as_str(), program.processes)).collect();
    assert_eq!(programs, [("sh", 1), ("sleep", 2)]);
    let part = |kind| found.parts.iter().find(|part| part.kind == kind).unwrap_or_else(|| panic!("{found:#?}"));
    // The shell waits for the first sleep with wait4(2), and for the signal at the end of the second one.
    let (child, asleep, pause) = (part(TimeKind::Child), part(TimeKind::Sleep), part(TimeKind::Pause));
    // It waits only for the first one as a child.
    assert!(child.seconds > 0.4 && asleep.seconds > 0.9 && pause.seconds > 0.4, "{found:#?}");
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
    // The writer needs some CPU time for each line.
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

/// A process that waits for another process, or a thread that waits for another thread (tests/programs/waits.c).
struct Waiter {
    process: Child,
    holder: u32,
    _folder: TempDir,
}

/// Compiles the program; returns `None` without root or gcc.
fn waits() -> Option<&'static Path> {
    static PROGRAM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    if !skip::is_root() || !skip::has_program("gcc") {
        return None;
    }
    let (_, program) = PROGRAM.get_or_init(|| {
        let folder = whyslow_testing::folder();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs/waits.c");
        let output = folder.path().join("wsl-waiter");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O2", "-g", "-Wall", "-Werror", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-o"]);
        assert!(gcc.arg(&output).arg(source).args(["-lpthread", "-lrt"]).status().unwrap().success());
        (folder, output)
    });
    Some(program)
}

impl Waiter {
    fn start(kind: &str) -> Option<Self> {
        let program = waits()?;
        let folder = whyslow_testing::folder();
        let mut command = Command::new(program);
        command.arg(kind).arg(folder.path()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut process = ends_with_test(&mut command).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Some(Self { process, holder: line.trim().parse().unwrap(), _folder: folder })
    }

    fn explained(&self) -> TimeBreakdown {
        let found = breakdown(&["--for", "3s", "--pid", &self.process.id().to_string()]);
        assert_adds_up(&found);
        found
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Asserts, for each kind of wait, its name, and that the chain ends at the process that computes before it releases.
fn the_holder_is_the_end_of_the_chain(kinds: &[(&str, TimeKind)]) {
    for (name, kind) in kinds {
        let Some(waiter) = Waiter::start(name) else { return };
        let found = waiter.explained();
        assert!(share(&found, &[*kind]) > 0.7, "{name}: {found:#?}");
        let part = found.parts.iter().find(|part| part.kind == *kind).unwrap();
        let by = part.by.first().unwrap_or_else(|| panic!("{name}: {found:#?}"));
        assert_eq!((by.kind.as_str(), by.name.as_str()), ("process", "wsl-holder"), "{name}: {found:#?}");
        assert!(by.share > 0.9, "{name}: {found:#?}");
        // The function that releases a file lock calls libc directly. libc's functions have no frames, so the caller of
        // the function is seen.
        let places: Vec<&str> = part.released_in.iter().map(|place| place.name.as_str()).collect();
        assert!(*name != "flock" || places == ["hold"], "{places:?}");
        let last = found.chain.last().unwrap_or_else(|| panic!("{name}: {found:#?}"));
        assert_eq!((found.chain.len(), last.pid), (2, waiter.holder), "{name}: {found:#?}");
        assert!(RUNNING.contains(&last.kind), "{name}: {found:#?}");
    }
}

#[test]
fn who_holds_a_semaphore_or_a_file_lock_is_the_end_of_the_chain() {
    the_holder_is_the_end_of_the_chain(&[
        ("undone-semaphore", TimeKind::Lock),
        ("semaphore", TimeKind::Ipc),
        ("posix-semaphore", TimeKind::Futex),
        ("flock", TimeKind::FileLock),
        ("record", TimeKind::FileLock),
        ("ofd", TimeKind::FileLock),
    ]);
}

#[test]
fn who_sends_or_takes_messages_is_the_end_of_the_chain() {
    the_holder_is_the_end_of_the_chain(&[
        ("message", TimeKind::Ipc),
        ("queue", TimeKind::Ipc),
        ("full-queue", TimeKind::Ipc),
    ]);
}

#[test]
fn who_owes_an_answer_is_the_end_of_the_chain() {
    the_holder_is_the_end_of_the_chain(&[
        ("udp", TimeKind::Receive),
        ("connected-udp", TimeKind::Receive),
        ("unix-stream", TimeKind::Receive),
        ("unix-datagram", TimeKind::Receive),
        ("polled-stream", TimeKind::Receive),
        ("polled-udp", TimeKind::Receive),
    ]);
}

#[test]
fn a_server_that_nobody_asks_is_idle() {
    let Some(waiter) = Waiter::start("udp") else { return };
    // The server's only client sends no more requests.
    // SAFETY: kill(2) on our own child.
    unsafe { libc::kill(waiter.process.id().cast_signed(), libc::SIGSTOP) };
    let found = breakdown(&["--for", "1s", "--pid", &waiter.holder.to_string()]);
    assert_adds_up(&found);
    assert!(share(&found, &[TimeKind::Receive]) > 0.9, "{found:#?}");
    assert!(found.conclusion.contains("has nothing to do"), "{}", found.conclusion);
}

#[test]
fn who_holds_a_lock_that_is_never_released_is_named() {
    for (name, kind) in [
        ("undone-semaphore-forever", TimeKind::Lock),
        ("flock-forever", TimeKind::FileLock),
        ("record-forever", TimeKind::FileLock),
        ("ofd-forever", TimeKind::FileLock),
    ] {
        let Some(waiter) = Waiter::start(name) else { return };
        let found = waiter.explained();
        assert!(share(&found, &[kind]) > 0.98, "{name}: {found:#?}");
        let last = found.chain.last().unwrap_or_else(|| panic!("{name}: {found:#?}"));
        assert_eq!((found.chain.len(), last.pid), (2, waiter.holder), "{name}: {found:#?}");
        let advice = found.advice.unwrap_or_else(|| panic!("{name}: {}", found.conclusion));
        assert!(advice.text.contains("wsl-holder") && advice.text.contains("release its lock"), "{name}: {advice:?}");
    }
}

#[test]
fn the_thread_that_holds_a_lock_is_followed() {
    for (name, held_by) in [("writer", "wsl-holder"), ("reader", "wsl-holder")] {
        let Some(waiter) = Waiter::start(name) else { return };
        let found = waiter.explained();
        let part = found.parts.iter().find(|part| part.kind == TimeKind::Lock).unwrap_or_else(|| panic!("{found:#?}"));
        // One of two threads waits.
        assert!((0.4..0.55).contains(&part.share), "{name}: {found:#?}");
        assert_eq!((part.by[0].kind.as_str(), part.by[0].name.as_str()), ("thread", held_by), "{name}: {part:#?}");
        let last = found.chain.last().unwrap_or_else(|| panic!("{name}: {found:#?}"));
        assert_eq!((last.tid, last.name.as_str()), (part.by[0].pid, held_by), "{name}: {found:#?}");
        assert!(RUNNING.contains(&last.kind), "{name}: {found:#?}");
    }
    let Some(waiter) = Waiter::start("writer-forever") else { return };
    let found = waiter.explained();
    let part = found.parts.iter().find(|part| part.kind == TimeKind::Lock).unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!((part.by[0].kind.as_str(), part.by[0].name.as_str()), ("thread", "wsl-holder"), "{part:#?}");
}

#[test]
fn who_signals_a_condition_variable_is_named() {
    let Some(waiter) = Waiter::start("condition") else { return };
    let found = waiter.explained();
    let part = found.parts.iter().find(|part| part.kind == TimeKind::Futex).unwrap_or_else(|| panic!("{found:#?}"));
    assert!((0.45..0.52).contains(&part.share), "{found:#?}");
    assert_eq!((part.by[0].kind.as_str(), part.by[0].name.as_str()), ("thread", "wsl-holder"), "{part:#?}");
    // The other thread works for the same program.
    assert!(found.conclusion.contains("a CPU"), "{}", found.conclusion);
}

#[test]
fn the_chain_goes_on_into_a_child() {
    if !skip::is_root() {
        return;
    }
    let script = "while :; do sh -c 'i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; :'; done";
    let mut parent = ends_with_test(Command::new("sh").args(["-c", script])).spawn().unwrap();
    let found = breakdown(&["--for", "3s", "--pid", &parent.id().to_string()]);
    parent.kill().unwrap();
    parent.wait().unwrap();
    assert_adds_up(&found);
    assert_eq!(found.threads, 1, "{found:#?}");
    assert!(share(&found, &[TimeKind::Child]) > 0.7, "{found:#?}");
    let last = found.chain.last().unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!((found.chain.len(), last.name.as_str()), (2, "sh"), "{found:#?}");
    assert!(RUNNING.contains(&last.kind), "{found:#?}");
    assert!(found.conclusion.contains("in the end the time goes to sh"), "{}", found.conclusion);
}

#[test]
fn the_child_of_a_command_is_the_answer() {
    if !skip::is_root() {
        return;
    }
    let found = breakdown(&["--", "sh", "-c", "sleep 0.7; :"]);
    assert_adds_up(&found);
    assert!(share(&found, &[TimeKind::Pause]) > 0.4, "{found:#?}");
    assert!(found.conclusion.contains("of its time asleep, in sleep"), "{}", found.conclusion);
}

#[test]
fn short_commands_are_explained() {
    if !skip::is_root() {
        return;
    }
    for command in
        [&["true"][..], &["sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"], &["sleep", "0.02"]]
    {
        let found = breakdown(&[&["--"], command].concat());
        assert_adds_up(&found);
        assert_eq!((found.threads, found.cost.lost), (1, 0), "{found:#?}");
        assert!(found.conclusion.contains("spends"), "{command:?}: {}", found.conclusion);
        let guesses = found.unseen.iter().any(|unseen| unseen.contains("guess"));
        assert!(guesses || found.samples >= 10 || command[0] == "sleep", "{found:#?}");
    }
}

#[test]
fn the_functions_of_a_short_command_are_named() {
    let Some(program) = waits() else { return };
    let found = breakdown(&["--", program.to_str().unwrap(), "compute", "50"]);
    assert_adds_up(&found);
    let user = found.parts.iter().find(|part| part.kind == TimeKind::User).unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!(user.functions[0].name, "work", "{found:#?}");
    assert!(user.functions[0].share > 0.6 && found.samples >= 10, "{found:#?}");
}

#[test]
fn many_short_children_are_told() {
    if !skip::is_root() {
        return;
    }
    let found = breakdown(&["--", "sh", "-c", "for i in $(seq 300); do /bin/true; done"]);
    assert_adds_up(&found);
    let of_true = found.programs.iter().find(|program| program.name == "true").unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!((of_true.processes, found.cost.lost), (300, 0), "{found:#?}");
    assert!(found.conclusion.contains("it started true 300 times"), "{}", found.conclusion);
    assert!(
        found.advice.is_some_and(|advice| advice.text.starts_with("Start fewer processes")),
        "{}",
        found.conclusion
    );
}

#[test]
fn more_children_than_the_tables_hold_add_up_all_the_same() {
    if !skip::is_root() {
        return;
    }
    let script = "i=0; while [ $i -lt 12000 ]; do /bin/true; i=$((i+1)); done";
    let found = breakdown(&["--", "sh", "-c", script]);
    assert_adds_up(&found);
    let of_true = found.programs.iter().find(|program| program.name == "true").unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!((of_true.processes, found.cost.lost), (12_000, 0), "{:#?}", found.programs);
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
