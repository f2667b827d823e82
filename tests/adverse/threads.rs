//! Tests that a command reports that no more threads can be started, or works without them; none panics.

use crate::{skip, whyslow};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use whyslow_testing::ends_with_test;

/// A control group that limits the number of tasks; removed when dropped.
struct TaskLimit(PathBuf);

impl TaskLimit {
    /// Returns `None` if no hierarchy with the controller pids is mounted.
    fn new(tasks: u32) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let points = mounts.lines().filter(|line| line.contains(" - cgroup")).filter_map(|line| line.split(' ').nth(4));
        let has_limit = |point: &&str| {
            let controllers = fs::read_to_string(Path::new(point).join("cgroup.subtree_control")).unwrap_or_default();
            point.ends_with("/pids") || controllers.split_whitespace().any(|name| name == "pids")
        };
        let folder =
            points.into_iter().find(has_limit).map(|point| Path::new(point).join(whyslow_testing::name("pids")))?;
        fs::create_dir(&folder).unwrap();
        let limit = Self(folder);
        fs::write(limit.0.join("pids.max"), tasks.to_string()).unwrap();
        Some(limit)
    }

    fn output(&self, args: &[&str]) -> Output {
        let mut command = Command::new("sh");
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_whyslow")]).args(args).stdin(Stdio::null());
        ends_with_test(&mut command).output().unwrap()
    }
}

impl Drop for TaskLimit {
    fn drop(&mut self) {
        // A process that has just ended may still be in the group.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn no_command_panics_where_no_thread_can_be_started() {
    if !skip::is_root() {
        return;
    }
    let Some(limit) = TaskLimit::new(1) else { return skip::skip("no cgroup controller pids") };
    let folder = whyslow_testing::folder();
    let recording = folder.path().join("recording").to_string_lossy().into_owned();
    assert!(whyslow(&["record", "--dir", &recording, "--for", "3s", "--no-bpf"]).output().unwrap().status.success());
    let capture = folder.path().join("vmstat.txt");
    fs::write(&capture, "procs\n").unwrap();
    let capture = capture.to_string_lossy().into_owned();
    let new = folder.path().join("new").to_string_lossy().into_owned();
    let bench = folder.path().to_string_lossy().into_owned();
    let works = Some(0);
    let refused = Some(2);
    for (args, status) in [
        (&["--for", "1s", "--no-bpf", "--json"][..], works),
        (&["stack"], works),
        (&["explain", "--dir", &recording, "--json"], None),
        (&["read", &capture], None),
        (&["record", "--dir", &new, "--for", "1s", "--no-bpf"], refused),
        (&["serve", "--listen", "127.0.0.1:0"], refused),
        (&["exporter", "--listen", "127.0.0.1:0"], refused),
        (&["mcp"], refused),
        (&["bench", "cpu", "--for", "20ms"], refused),
        (&["bench", "memory", "--for", "20ms"], refused),
        (&["bench", "disk", &bench, "--size", "1M", "--for", "20ms"], refused),
        (&["profile", "--for", "1s"], None),
        (&["try", "vm.swappiness=10", "--", "true"], None),
    ] {
        let out = limit.output(args);
        let said = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
        assert!(!said.contains("panicked") && out.status.code().is_some_and(|code| code != 101), "{args:?}: {said}");
        if let Some(status) = status {
            assert_eq!(out.status.code(), Some(status), "{args:?}: {said}");
        }
        if status == refused {
            let error = String::from_utf8_lossy(&out.stderr);
            assert!(
                error.contains("thread") || error.contains("Resource temporarily unavailable"),
                "{args:?}: {error}"
            );
        }
    }
}
