//! A lab that is killed leaves nothing behind that the next run does not remove.

#[path = "../../tests/skip/mod.rs"]
mod skip;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const WORK: &str = "/run/wslab-work";

fn wait_until(what: &str, condition: &mut dyn FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Everything on this machine that bears the lab's names, and swap, which bears none.
fn traces() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut traces: Vec<String> = mounts.lines().filter(|line| line.contains(WORK)).map(str::to_owned).collect();
    for line in mounts.lines().filter(|line| line.split(' ').nth(2).is_some_and(|kind| kind.starts_with("cgroup"))) {
        traces.extend(entries(line.split(' ').nth(1).unwrap()));
    }
    traces.extend(entries("/run/netns"));
    traces.extend(fs::read_dir(WORK).into_iter().flatten().flatten().map(|entry| entry.path().display().to_string()));
    for device in fs::read_dir("/sys/block").unwrap().flatten() {
        let file = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        traces.extend(file.starts_with(WORK).then_some(file));
    }
    traces.extend(fs::read_to_string("/proc/swaps").unwrap().lines().filter(|l| l.contains("zram")).map(str::to_owned));
    traces
}

fn entries(dir: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path().display().to_string());
    entries.filter(|path| path.contains("/wslab-")).collect()
}

/// The controllers that are enabled for the groups below the root of version 2.
fn enabled_controllers() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let roots = fields.filter(|fields| fields[2] == "cgroup2").map(|fields| fields[1].to_owned());
    roots.map(|root| fs::read_to_string(Path::new(&root).join("cgroup.subtree_control")).unwrap()).collect()
}

#[test]
fn what_a_killed_lab_leaves_is_removed_by_the_next_one() {
    if !skip::is_root() {
        return;
    }
    let dir = whyslow_testing::folder();
    let (whyslow, started) = (dir.path().join("whyslow"), dir.path().join("started"));
    let write_script = |script: String| {
        fs::write(&whyslow, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&whyslow, fs::Permissions::from_mode(0o700)).unwrap();
    };
    let lab = |trial: &str| {
        let mut command = Command::new(std::env::var_os("CARGO_BIN_EXE_whyslow-lab").unwrap());
        command.args(["--only", trial, "--whyslow"]).arg(&whyslow).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let controllers = enabled_controllers();
    for trial in ["mem.thrashing", "disk.shared", "task.blocked", "net.loss"] {
        write_script(format!("touch {}; exec sleep 600", started.display()));
        let mut killed = lab(trial).spawn().unwrap();
        wait_until("the fault is observed, or cannot be injected", &mut || {
            started.exists() || killed.try_wait().unwrap().is_some()
        });
        if !started.exists() {
            let output = killed.wait_with_output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            assert!(text.contains("skipped"), "{trial}: {text}");
            skip::skip(&text);
            continue;
        }
        assert!(!traces().is_empty(), "{trial}");
        killed.kill().unwrap();
        killed.wait().unwrap();
        fs::remove_file(&started).unwrap();
        write_script("exit 1".into());
        let next = lab("limit.open_files").output().unwrap();
        assert_eq!(next.status.code(), Some(1), "{}", String::from_utf8_lossy(&next.stderr));
        assert_eq!(traces(), [""; 0], "{trial}");
        assert_eq!(enabled_controllers(), controllers, "{trial}");
        assert!(!Path::new(WORK).exists() || fs::read_dir(WORK).unwrap().next().is_none());
    }
}
