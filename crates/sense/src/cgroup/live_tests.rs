//! Groups made on this machine, where it has version 1 and lets us.

use super::groups::Groups;
use crate::{Root, Source};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;
use whyslow_model::catalogue::Group;
use whyslow_model::snapshot::Snapshot;

/// A group of one controller, removed when dropped, its process first.
struct Made {
    folder: PathBuf,
    inside: Option<Child>,
}

impl Made {
    /// `None` where the controller is not mounted as version 1, or not for us to write.
    fn new(controller: &str, name: &str) -> Option<Self> {
        let folder = PathBuf::from(format!("/sys/fs/cgroup/{controller}/{name}"));
        fs::create_dir(&folder).ok()?;
        Some(Self { folder, inside: None })
    }

    fn set(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.folder.join(file), value)
    }

    /// Runs a shell command inside.
    fn run(&mut self, command: &str) {
        let script = format!("echo $$ > {}/cgroup.procs; {command}", self.folder.display());
        self.inside = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).spawn().ok();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(child) = &mut self.inside {
            let _ = child.kill();
            let _ = child.wait();
        }
        // A group is busy until its last process is buried.
        for _ in 0..50 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
    }
}

fn sample() -> Snapshot {
    let mut s = Snapshot::default();
    Groups::default().read(&Root::live(), &mut s).unwrap();
    s.sort();
    s
}

fn name(of: &str) -> String {
    format!("wsl-block-{of}-{}", std::process::id())
}

#[test]
fn a_busy_group_with_a_quota_is_throttled() {
    let name = name("cpu");
    let Some(mut made) = Made::new("cpu", &name) else { return };
    made.set("cpu.cfs_quota_us", "10000").unwrap();
    made.run("while :; do :; done");
    sleep(Duration::from_millis(500));
    let s = sample();
    let group: &Group = s.row(&format!("/{name}").as_str().into()).unwrap();
    assert_eq!((group.quota.get(), group.period.get()), (Some(1e7), Some(1e8)));
    assert!(group.throttled_periods.get() > Some(0) && group.throttled_time.get() > Some(0), "{group:?}");
}

#[test]
fn a_group_with_a_memory_limit_shows_its_use() {
    let name = name("memory");
    let Some(mut made) = Made::new("memory", &name) else { return };
    made.set("memory.limit_in_bytes", "67108864").unwrap();
    made.run("x=$(head -c 4000000 /dev/zero | tr '\\0' x); while :; do sleep 0.1; done");
    sleep(Duration::from_millis(500));
    let s = sample();
    let group: &Group = s.row(&format!("/{name}").as_str().into()).unwrap();
    assert_eq!(group.memory_max.get(), Some(67_108_864.0));
    assert!(group.anon.get() > Some(3e6) && group.memory.get() < group.memory_max.get(), "{group:?}");
    assert_eq!(group.oom_kills.get(), Some(0));
}

#[test]
fn a_group_that_writes_shows_on_which_device_and_its_limit() {
    let root = Root::live();
    let mounts = crate::block::mountinfo::read(&root).unwrap();
    let below = crate::block::mountinfo::holder(&mounts, "/var/tmp/x").unwrap();
    let name = name("blkio");
    let Some(mut made) = Made::new("blkio", &name) else { return };
    if made.set("blkio.throttle.write_bps_device", &format!("{} 8388608", below.number)).is_err() {
        return;
    }
    let file = tempfile::Builder::new().prefix("wsl-block-").tempfile_in("/var/tmp").unwrap();
    made.run(&format!("exec dd if=/dev/zero of={} bs=64k count=16 oflag=direct", file.path().display()));
    sleep(Duration::from_millis(800));
    let s = sample();
    let rows = s.cgroup.group_io.iter().filter(|io| *io.link.upper == format!("/{name}"));
    let row = rows.into_iter().next().unwrap();
    assert_eq!(row.link.lower, below.device(&root));
    assert_eq!((row.write_bytes.get(), row.write_bytes_limit.get()), (Some(1 << 20), Some(8_388_608.0)));
}

#[test]
fn groups_that_come_and_go_between_samples_are_noticed() {
    let name = |n: u32| name(&format!("come-{n}"));
    let Some(first) = Made::new("pids", &name(1)) else { return };
    let mut source = Groups::default();
    let mut paths = || {
        let mut s = Snapshot::default();
        source.read(&Root::live(), &mut s).unwrap();
        s.cgroup.group.iter().map(|g| g.path.to_string()).collect::<Vec<_>>()
    };
    let path = |n| format!("/{}", name(n));
    assert!(paths().contains(&path(1)));
    let second = Made::new("pids", &name(2)).unwrap();
    assert!(paths().contains(&path(2)), "the kernel's count has grown");
    // As one goes and another comes, the count stands.
    drop(first);
    let _third = Made::new("pids", &name(3)).unwrap();
    let seen = paths();
    assert!(!seen.contains(&path(1)) && seen.contains(&path(2)));
    assert!(paths().contains(&path(3)));
    drop(second);
    assert!(!paths().contains(&path(2)));
}

#[test]
fn a_group_that_was_idle_is_read_as_soon_as_it_works() {
    let name = name("wakes");
    let Some(mut made) = Made::new("cpuacct", &name) else { return };
    let mut source = Groups::default();
    let mut used = || {
        let mut s = Snapshot::default();
        source.read(&Root::live(), &mut s).unwrap();
        s.sort();
        s.row::<Group>(&format!("/{name}").as_str().into()).unwrap().cpu_usage.get()
    };
    assert_eq!((used(), used()), (Some(0), Some(0)));
    made.run("while :; do :; done");
    // It may take a while to get a processor, but what it used is seen in the next sample.
    let worked = (0..100).any(|_| {
        sleep(Duration::from_millis(50));
        used() > Some(0)
    });
    assert!(worked);
}

#[test]
fn a_group_that_is_made_again_under_its_name_is_another() {
    let name = name("again");
    let mut groups = Groups::default();
    let mut identity = || {
        let mut s = Snapshot::default();
        groups.read(&Root::live(), &mut s).unwrap();
        let group = s.cgroup.group.iter().find(|g| *g.path == *format!("/{name}"));
        group.map(|group| group.identity.get().unwrap().to_owned())
    };
    let Some(first) = Made::new("cpu", &name) else { return };
    let before = identity().unwrap();
    assert_eq!(identity().as_ref(), Some(&before));
    drop(first);
    let _second = Made::new("cpu", &name).unwrap();
    assert_ne!(identity().unwrap(), before);
}
