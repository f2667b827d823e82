//! Tests with cgroups created on this machine, if it has version 1.

use super::Cgroups;
use crate::testing::{Reaped, is_root, read, skip, wait_for, wait_until};
use std::fs;
use std::path::PathBuf;
use whyslow_model::catalogue::Group;
use whyslow_model::snapshot::Snapshot;

/// A cgroup in the hierarchy of one controller; removed when dropped, after its process has been killed.
pub(crate) struct TestGroup {
    pub(crate) directory: PathBuf,
    process: Option<Reaped>,
}

impl TestGroup {
    /// Returns `None` and skips the test if the controller has no version 1 hierarchy.
    pub(crate) fn new(controller: &str, name: &str) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let hierarchy = PathBuf::from(format!("/sys/fs/cgroup/{controller}"));
        if !hierarchy.join("tasks").exists() {
            skip(&format!("no cgroup v1 hierarchy with the {controller} controller"));
            return None;
        }
        let directory = hierarchy.join(name);
        fs::create_dir(&directory).unwrap();
        Some(Self { directory, process: None })
    }

    fn set(&self, file: &str, value: &str) {
        fs::write(self.directory.join(file), value).unwrap();
    }

    /// Runs a shell command in the cgroup.
    pub(crate) fn run(&mut self, command: &str) {
        let script = format!("echo $$ > {}/cgroup.procs; {command}", self.directory.display());
        self.process = Some(Reaped::shell(&script));
    }
}

impl Drop for TestGroup {
    fn drop(&mut self) {
        drop(self.process.take());
        // A cgroup is busy until its last process has been reaped.
        wait_until("the cgroup is removed", || fs::remove_dir(&self.directory).is_ok());
    }
}

fn name(suffix: &str) -> String {
    whyslow_testing::name(suffix)
}

fn row(snapshot: &Snapshot, name: &str) -> Option<Group> {
    snapshot.row::<Group>(&format!("/{name}").as_str().into()).cloned()
}

/// Samples until the row of this cgroup satisfies `condition`.
fn sample_until(what: &str, name: &str, condition: impl Fn(&Group) -> bool) -> Group {
    wait_for(what, || row(&read(&mut Cgroups::default()), name).filter(&condition))
}

#[test]
fn a_busy_group_with_a_quota_is_throttled() {
    let name = name("cpu");
    let Some(mut made) = TestGroup::new("cpu", &name) else { return };
    made.set("cpu.cfs_quota_us", "10000");
    made.run("while :; do :; done");
    let throttled = |g: &Group| g.throttled_periods.get() > Some(0) && g.throttled_time.get() > Some(0);
    let group = sample_until("the group is throttled", &name, throttled);
    assert_eq!((group.quota.get(), group.period.get()), (Some(1e7), Some(1e8)));
}

#[test]
fn a_group_with_a_memory_limit_reports_its_usage() {
    let name = name("memory");
    let Some(mut made) = TestGroup::new("memory", &name) else { return };
    made.set("memory.limit_in_bytes", "67108864");
    made.run("x=$(head -c 4000000 /dev/zero | tr '\\0' x); while :; do sleep 0.1; done");
    let group = sample_until("the memory is used", &name, |g| g.anon.get() > Some(3e6));
    assert_eq!((group.memory_max.get(), group.oom_kills.get()), (Some(67_108_864.0), Some(0)));
    assert!(group.memory.get() < group.memory_max.get(), "{group:?}");
}

#[test]
fn a_group_that_writes_has_a_row_for_the_device_with_its_limit() {
    let root = crate::Root::live();
    let mounts = crate::block::mountinfo::read(&root).unwrap();
    let below = crate::block::mountinfo::holder(&mounts, "/var/tmp/x").unwrap();
    let name = name("blkio");
    let Some(mut made) = TestGroup::new("blkio", &name) else { return };
    let limit = format!("{} 8388608", below.number);
    if fs::write(made.directory.join("blkio.throttle.write_bps_device"), limit).is_err() {
        return skip("/var/tmp is on no block device that can be throttled");
    }
    let file = whyslow_testing::file_in("/var/tmp");
    made.run(&format!("exec dd if=/dev/zero of={} bs=64k count=16 oflag=direct", file.path().display()));
    let row = wait_for("the group has written", || {
        let s = read(&mut Cgroups::default());
        let row = s.cgroup.group_io.iter().find(|io| *io.link.upper == format!("/{name}")).cloned();
        row.filter(|row| row.write_bytes.get() >= Some(1 << 20))
    });
    assert_eq!(row.link.lower, below.device(&root));
    assert_eq!((row.write_bytes.get(), row.write_bytes_limit.get()), (Some(1 << 20), Some(8_388_608.0)));
}

#[test]
fn groups_that_come_and_go_between_samples_are_noticed() {
    let names = [1, 2, 3].map(|n| name(&format!("come-{n}")));
    let name = |n: usize| &names[n - 1];
    let Some(first) = TestGroup::new("pids", name(1)) else { return };
    let mut source = Cgroups::default();
    let mut paths = || read(&mut source).cgroup.group.iter().map(|g| g.path.to_string()).collect::<Vec<_>>();
    let path = |n| format!("/{}", name(n));
    assert!(paths().contains(&path(1)));
    let second = TestGroup::new("pids", name(2)).unwrap();
    assert!(paths().contains(&path(2)), "the kernel's count has grown");
    // The count stays the same, because one cgroup is removed and another created.
    drop(first);
    let _third = TestGroup::new("pids", name(3)).unwrap();
    let seen = paths();
    assert!(!seen.contains(&path(1)) && seen.contains(&path(2)));
    assert!(paths().contains(&path(3)));
    drop(second);
    assert!(!paths().contains(&path(2)));
}

#[test]
fn an_idle_group_is_read_as_soon_as_it_works() {
    let name = name("wakes");
    let Some(mut made) = TestGroup::new("cpuacct", &name) else { return };
    let mut source = Cgroups::default();
    let mut used = || row(&read(&mut source), &name).unwrap().cpu_usage.get();
    assert_eq!((used(), used()), (Some(0), Some(0)));
    made.run("while :; do :; done");
    wait_until("the group has used CPU time", || used() > Some(0));
}

#[test]
fn a_group_created_again_under_its_name_is_another() {
    let name = name("again");
    let mut groups = Cgroups::default();
    let mut identity = || row(&read(&mut groups), &name).map(|group| group.identity.get().unwrap().to_owned());
    let Some(first) = TestGroup::new("cpu", &name) else { return };
    let before = identity().unwrap();
    assert_eq!(identity().as_ref(), Some(&before));
    drop(first);
    let _second = TestGroup::new("cpu", &name).unwrap();
    assert_ne!(identity().unwrap(), before);
}
