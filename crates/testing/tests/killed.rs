//! Tests that a killed test process leaves nothing behind.

#[path = "../../../tests/skip/mod.rs"]
mod skip;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use whyslow_testing::{
    LoopDevice, RestoredSetting, ends_with_test, file_in, folder_in, memory_folder, name, sweep, tree,
};

const HOLDER: &str = "WHYSLOW_TEST_HOLDER";
const SETTING: &str = "/sys/module/printk/parameters/time";

fn must(command: &mut Command) {
    let out = command.output().unwrap();
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Lists the cgroup hierarchies of this machine.
fn hierarchies() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    fields.filter(|fields| fields[2].starts_with("cgroup")).map(|fields| PathBuf::from(fields[1])).collect()
}

/// Not a test, but the process that another test kills. It creates one resource of each kind, prints a line, and waits.
#[test]
#[ignore = "started by the test that kills it"]
fn holder() {
    if std::env::var_os(HOLDER).is_none() {
        return;
    }
    let folder = folder_in("/var/tmp");
    let (image, mounted) = (file_in(folder.path()), folder.path().join("mounted"));
    image.as_file().set_len(16 << 20).unwrap();
    let device = LoopDevice::on(image.path(), false).unwrap();
    let over = LoopDevice::on(Path::new(&device.node()), true).unwrap();
    // Attached by losetup(8), which does not set autoclear.
    must(Command::new("losetup").args(["--find", "--show"]).arg(image.path()));
    fs::create_dir(&mounted).unwrap();
    must(Command::new("mkfs.ext4").args(["-q", &over.node()]));
    must(Command::new("mount").arg(over.node()).arg(&mounted));
    must(Command::new("fsfreeze").arg("--freeze").arg(&mounted));
    must(Command::new("ip").args(["netns", "add", &name("ns")]));
    let mut children = Vec::new();
    for hierarchy in hierarchies() {
        let group = hierarchy.join(name("group"));
        fs::create_dir(&group).unwrap();
        let mut sleep = Command::new("sleep").arg("600").spawn().unwrap();
        // Where version 2 is mounted next to version 1, some groups cannot have processes.
        let joined = fs::write(group.join("cgroup.procs"), sleep.id().to_string());
        if joined.is_err() {
            sleep.kill().unwrap();
        }
        children.push(sleep.id());
        std::mem::forget(sleep);
    }
    let setting = RestoredSetting::record(SETTING);
    let other = if fs::read_to_string(SETTING).unwrap().trim() == "Y" { "0" } else { "1" };
    fs::write(SETTING, other).unwrap();
    let alone = ends_with_test(Command::new("sleep").arg("600")).spawn().unwrap();
    // The shell's child and grandchild are identified by their open file.
    let held = fs::File::open(folder.path()).unwrap();
    let mut shells = tree("sh");
    shells.args(["-c", "sleep 600 & sh -c 'sleep 600; true'; true"]).stdin(Stdio::from(held));
    let shells = shells.spawn().unwrap();
    wait_until("the tree has grown", || holders_of(folder.path()).len() >= 4);
    children.extend([alone.id(), shells.id()]);
    children.extend(holders_of(folder.path()));
    let _kept = (memory_folder(), setting, alone, shells);
    println!("\nmade {} {children:?}", whyslow_testing::prefix());
    std::thread::sleep(Duration::from_secs(600));
}

/// Lists the processes whose standard input is this folder.
fn holders_of(folder: &Path) -> Vec<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| fs::read_link(format!("/proc/{pid}/fd/0")).is_ok_and(|link| link == folder)).collect()
}

/// Starts a holder and waits until it has created everything. Returns it, the prefix of its names, and its child processes.
fn started() -> (Child, String, Vec<u32>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "holder", "--ignored", "--nocapture"]).env(HOLDER, "1").stdout(Stdio::piped());
    let mut child = ends_with_test(&mut command).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let made = lines.find_map(|line| line.strip_prefix("made ").map(str::to_owned)).expect("all was made");
    let (prefix, children) = made.split_once(' ').unwrap();
    let children = children.trim_matches(['[', ']']).split(", ").map(|pid| pid.parse().unwrap()).collect();
    (child, prefix.to_owned(), children)
}

/// Lists the resources with this prefix on this machine, and those of these processes that are running.
fn traces(prefix: &str, children: &[u32]) -> Vec<String> {
    let mut traces = Vec::new();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    traces.extend(mounts.lines().filter(|line| line.contains(prefix)).map(str::to_owned));
    let folders = ["/tmp", "/var/tmp", "/dev/shm", "/run/netns"].map(PathBuf::from);
    for folder in hierarchies().into_iter().chain(folders).chain([std::env::temp_dir()]) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        traces.extend(entries.map(|path| path.display().to_string()).filter(|path| path.contains(prefix)));
    }
    for device in fs::read_dir("/sys/block").unwrap().flatten() {
        let file = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        traces.extend(file.contains(prefix).then(|| format!("{:?} on {file}", device.file_name())));
    }
    let runs = |pid: &&u32| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    traces.extend(children.iter().filter(runs).map(|pid| format!("process {pid}")));
    traces
}

/// Kills the process that a holder has started to clean up after it.
fn kill_reaper(holder: &Child, prefix: &str) {
    let threads = fs::read_dir(format!("/proc/{}/task", holder.id())).unwrap().flatten();
    let children: String =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect();
    let is_reaper =
        |pid: &&str| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(prefix));
    let reaper = children.split_whitespace().find(is_reaper).expect("a reaper");
    // SAFETY: kill(2) has no preconditions; the reaper is a child of the holder, which has not waited for it.
    assert_eq!(unsafe { libc::kill(reaper.parse().unwrap(), libc::SIGKILL) }, 0);
}

#[test]
fn nothing_that_a_killed_test_made_is_left() {
    if !skip::is_root() {
        return;
    }
    let before = fs::read_to_string(SETTING).unwrap();
    for with_reaper in [false, true] {
        let (mut holder, prefix, children) = started();
        let made = traces(&prefix, &children);
        assert!(made.len() > 10, "{made:?}");
        // The sweep of another test removes nothing of a running one.
        sweep();
        assert_eq!(traces(&prefix, &children), made);
        if with_reaper {
            kill_reaper(&holder, &prefix);
        }
        holder.kill().unwrap();
        holder.wait().unwrap();
        if with_reaper {
            assert!(!traces(&prefix, &children).is_empty());
            sweep();
            assert_eq!(traces(&prefix, &children), [""; 0]);
        } else {
            wait_until("nothing is left", || traces(&prefix, &children).is_empty());
        }
        assert_eq!(fs::read_to_string(SETTING).unwrap(), before, "reaper killed: {with_reaper}");
    }
}
