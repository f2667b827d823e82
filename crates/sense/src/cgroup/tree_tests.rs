//! Tests with captured trees of version 1, version 2 and both.

use super::Cgroups;
use crate::SourceError;
use crate::testing::CapturedTree;
use whyslow_model::catalogue::{Group, GroupIo};
use whyslow_model::key::LinkKey;
use whyslow_model::snapshot::Snapshot;

const MOUNTINFO: &str = "proc/self/mountinfo";
const V2: &str = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

fn read(tree: &CapturedTree) -> Snapshot {
    let (outcome, s) = tree.read(&mut Cgroups::default());
    assert_eq!(outcome, Ok(()));
    s
}

fn group<'s>(s: &'s Snapshot, path: &str) -> &'s Group {
    s.row(&path.into()).unwrap_or_else(|| panic!("no row {path}"))
}

fn io<'s>(s: &'s Snapshot, path: &str, device: &str) -> &'s GroupIo {
    s.row(&LinkKey { upper: path.into(), lower: device.into() }).unwrap_or_else(|| panic!("no row {path} on {device}"))
}

/// Creates a tree with these files in one cgroup's directory.
fn tree_of(mountinfo: &str, folder: &str, files: &[(&str, &str)]) -> CapturedTree {
    let tree = CapturedTree::with_files(&[(MOUNTINFO, mountinfo)]);
    for (file, text) in files {
        tree.write(&format!("sys/fs/cgroup/{folder}/{file}"), text);
    }
    tree.link("sys/dev/block/8:0", "../../devices/pci/block/sda");
    tree
}

#[test]
fn a_copy_of_a_few_files_is_read_without_its_mounts() {
    let tree = CapturedTree::with_files(&[(
        "sys/fs/cgroup/a.slice/b/cpu.stat",
        "usage_usec 9\nnr_periods 4\nnr_throttled 3\n",
    )]);
    tree.write("sys/fs/cgroup/a.slice/b/memory.max", "8192\n");
    let snapshot = read(&tree);
    let row = group(&snapshot, "/a.slice/b");
    assert_eq!(
        (row.periods.get(), row.throttled_periods.get(), row.memory_max.get()),
        (Some(4), Some(3), Some(8192.0))
    );
    assert_eq!(row.version.get(), Some("v2"));
    let tree =
        CapturedTree::with_files(&[("sys/fs/cgroup/cpu,cpuacct/docker/x/cpu.stat", "nr_periods 4\nnr_throttled 3\n")]);
    tree.write("sys/fs/cgroup/memory/docker/x/memory.failcnt", "7\n");
    let snapshot = read(&tree);
    let row = group(&snapshot, "/docker/x");
    assert_eq!(
        (row.throttled_periods.get(), row.limit_events.get(), row.version.get()),
        (Some(3), Some(7), Some("v1"))
    );
}

#[test]
fn version_2_is_read_in_full() {
    let tree = tree_of(
        V2,
        "system.slice/db.service",
        &[
            ("cgroup.controllers", "cpu io memory pids\n"),
            (
                "cpu.stat",
                "usage_usec 100\nuser_usec 60\nsystem_usec 40\nnr_periods 9\nnr_throttled 3\nthrottled_usec 7\n",
            ),
            ("cpu.max", "50000 100000\n"),
            ("cpu.weight", "100\n"),
            ("memory.current", "4096\n"),
            ("memory.max", "8192\n"),
            ("memory.high", "max\n"),
            ("memory.swap.current", "0\n"),
            ("memory.swap.max", "max\n"),
            (
                "memory.stat",
                "anon 1\nfile 2\nfile_dirty 3\nslab 4\nworkingset_refault_file 5\npgscan 6\npgscan_kswapd 60\n",
            ),
            ("memory.events", "low 0\nhigh 1\nmax 2\noom 3\noom_kill 4\n"),
            ("pids.current", "12\n"),
            ("pids.max", "max\n"),
            ("pids.events", "max 5\n"),
            ("memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=8\nfull avg10=0.00 total=6\n"),
            ("io.stat", "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n9:9 rbytes=1 wbytes=1 rios=1 wios=1\n"),
            ("io.max", "8:0 rbps=1048576 wbps=max riops=max wiops=120\n"),
        ],
    );
    tree.write("sys/fs/cgroup/cpu.stat", "usage_usec 5000\n");
    let s = read(&tree);
    let db = group(&s, "/system.slice/db.service");
    assert_eq!((db.cpu_usage.get(), db.throttled_time.get()), (Some(100_000), Some(7_000)));
    assert_eq!((db.periods.get(), db.throttled_periods.get()), (Some(9), Some(3)));
    assert_eq!((db.quota.get(), db.period.get()), (Some(5e7), Some(1e8)));
    assert_eq!((db.memory.get(), db.memory_max.get(), db.memory_high.get()), (Some(4096.0), Some(8192.0), None));
    assert_eq!((db.swap.get(), db.swap_max.get()), (Some(0.0), None));
    assert_eq!((db.dirty.get(), db.refault_file.get(), db.scanned.get()), (Some(3.0), Some(5), Some(6)));
    assert_eq!((db.high_events.get(), db.limit_events.get(), db.oom_kills.get()), (Some(1), Some(2), Some(4)));
    assert_eq!((db.pids.get(), db.pids_max.get(), db.pids_events.get()), (Some(12.0), None, Some(5)));
    assert_eq!(
        (db.psi_memory_some.get(), db.psi_memory_full.get(), db.psi_io_some.get()),
        (Some(8_000), Some(6_000), None)
    );
    assert_eq!((db.version.get(), db.swap_in.get()), (Some("v2"), None));
    let sda = io(&s, "/system.slice/db.service", "sda");
    assert_eq!((sda.read_bytes.get(), sda.writes.get()), (Some(10), Some(2)));
    assert_eq!((sda.read_bytes_limit.get(), sda.write_bytes_limit.get()), (Some(1_048_576.0), None));
    assert_eq!(sda.writes_limit.get(), Some(120.0));
    assert_eq!(io(&s, "/system.slice/db.service", "9:9").reads.get(), Some(1));
    let paths: Vec<&str> = s.cgroup.group.iter().map(|g| &*g.path).collect();
    assert_eq!(paths, ["/", "/system.slice/db.service"], "a cgroup without files has no row");
}

/// The kernel's output for a group with `memory.high` set and exceeded (Documentation/admin-guide/cgroup-v2.rst).
#[test]
fn a_group_that_is_throttled_at_memory_high() {
    let files = [
        ("cgroup.controllers", "cpu io memory pids\n"),
        ("memory.current", "314572800\n"),
        ("memory.high", "314576896\n"),
        ("memory.max", "max\n"),
        ("memory.events", "low 0\nhigh 18364\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n"),
        (
            "memory.pressure",
            "some avg10=43.17 avg60=38.20 avg300=12.05 total=61234567\nfull avg10=42.95 avg60=37.98 avg300=11.98 total=60987654\n",
        ),
    ];
    let s = read(&tree_of(V2, "app.slice/batch.scope", &files));
    let batch = group(&s, "/app.slice/batch.scope");
    assert_eq!((batch.memory.get(), batch.memory_high.get()), (Some(314_572_800.0), Some(314_576_896.0)));
    assert_eq!(
        (batch.memory_max.get(), batch.limit_events.get(), batch.high_events.get()),
        (None, Some(0), Some(18_364))
    );
    assert_eq!(batch.psi_memory_some.get(), Some(61_234_567_000));
    assert_eq!(batch.psi_memory_full.get(), Some(60_987_654_000));
    assert_eq!((batch.psi_memory_avg60.get(), batch.psi_io_avg60.get()), (Some(0.382), None));
}

const V1: &str = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                  33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                  34 31 0:31 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n\
                  35 31 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";

fn version_1_tree(mountinfo: &str) -> CapturedTree {
    let files = [
        ("cpu,cpuacct/app/cpu.stat", "nr_periods 10\nnr_throttled 4\nthrottled_time 123456789\n"),
        ("cpu,cpuacct/app/cpu.cfs_quota_us", "-1\n"),
        ("cpu,cpuacct/app/cpu.cfs_period_us", "100000\n"),
        ("cpu,cpuacct/app/cpu.shares", "1024\n"),
        ("cpu,cpuacct/app/cpuacct.usage", "987654321\n"),
        ("cpu,cpuacct/app/cpuacct.stat", "user 7\nsystem 3\n"),
        ("memory/app/memory.usage_in_bytes", "4096\n"),
        ("memory/app/memory.limit_in_bytes", "8192\n"),
        ("memory/app/memory.memsw.limit_in_bytes", "12288\n"),
        ("memory/app/memory.failcnt", "6\n"),
        ("memory/app/memory.stat", "cache 1\nrss 1\ntotal_cache 20\ntotal_rss 30\ntotal_swap 40\ntotal_pgpgin 5\n"),
        ("memory/app/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
        ("memory/free/memory.limit_in_bytes", "9223372036854771712\n"),
        (
            "blkio/app/blkio.throttle.io_service_bytes_recursive",
            "8:0 Read 100\n8:0 Write 200\n8:0 Total 300\nTotal 300\n",
        ),
        ("blkio/app/blkio.throttle.io_serviced", "8:0 Read 1\n8:0 Write 2\nTotal 3\n"),
        ("blkio/app/blkio.throttle.read_bps_device", "8:0 1048576\n"),
        ("pids/app/pids.current", "3\n"),
        ("pids/app/pids.max", "max\n"),
    ];
    tree_of(mountinfo, "", &files)
}

#[test]
fn the_hierarchies_of_version_1_make_one_row() {
    let s = read(&version_1_tree(V1));
    let app = group(&s, "/app");
    assert_eq!((app.cpu_usage.get(), app.cpu_user.get()), (Some(987_654_321), Some(70_000_000)));
    assert_eq!((app.throttled_time.get(), app.quota.get(), app.period.get()), (Some(123_456_789), None, Some(1e8)));
    assert_eq!(
        (app.memory.get(), app.memory_max.get(), app.swap_max.get()),
        (Some(4096.0), Some(8192.0), Some(4096.0))
    );
    assert_eq!((app.file.get(), app.anon.get(), app.swap.get()), (Some(20.0), Some(30.0), Some(40.0)));
    assert_eq!((app.limit_events.get(), app.oom_kills.get(), app.oom_events.get()), (Some(6), Some(2), None));
    assert_eq!((app.pids.get(), app.pids_max.get(), app.version.get()), (Some(3.0), None, Some("v1")));
    let sda = io(&s, "/app", "sda");
    assert_eq!((sda.read_bytes.get(), sda.write_bytes.get(), sda.reads.get()), (Some(100), Some(200), Some(1)));
    assert_eq!((sda.read_bytes_limit.get(), sda.writes_limit.get()), (Some(1_048_576.0), None));
    assert_eq!((group(&s, "/free").memory_max.get(), group(&s, "/free").swap_max.get()), (None, None));
}

#[test]
fn a_group_of_both_versions_has_one_row() {
    let tree = version_1_tree(&format!("{V1}36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"));
    tree.write("sys/fs/cgroup/unified/app/cpu.stat", "usage_usec 1\n");
    tree.write("sys/fs/cgroup/unified/app/io.pressure", "some avg10=0.00 total=5\n");
    tree.write("sys/fs/cgroup/unified/other/cpu.stat", "usage_usec 9\n");
    let s = read(&tree);
    let app = group(&s, "/app");
    assert_eq!((app.version.get(), app.psi_io_some.get()), (Some("v1+v2"), Some(5_000)));
    assert_eq!(app.cpu_usage.get(), Some(987_654_321), "version 1 has the controller");
    assert_eq!(group(&s, "/other").version.get(), Some("v2"));
}

#[test]
fn without_hierarchies_it_is_absent() {
    let tree = CapturedTree::with_files(&[(MOUNTINFO, "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n")]);
    let (outcome, _) = tree.read(&mut Cgroups::default());
    assert!(matches!(outcome, Err(SourceError::Absent(_))), "{outcome:?}");
}

#[test]
fn counters_of_the_root_and_of_pages_written_back_later_are_not_kept_for_several_samples() {
    let stat = |reads: u32| format!("8:0 rbytes=0 wbytes={reads} rios=0 wios=1 dbytes=0 dios=0\n");
    let controllers = ("cgroup.controllers", "cpu io memory\n");
    let tree = tree_of(V2, "", &[controllers, ("cpu.stat", "usage_usec 100\n")]);
    for (file, text) in
        [controllers, ("cgroup.type", "domain\n"), ("cpu.stat", "usage_usec 7\n"), ("io.stat", stat(1).as_str())]
    {
        tree.write(&format!("sys/fs/cgroup/idle/{file}"), text);
    }
    let mut source = Cgroups::default();
    let mut seen = Vec::new();
    for sample in 1..=3 {
        tree.write("sys/fs/cgroup/cpu.stat", &format!("usage_usec {}\n", 100 * sample));
        tree.write("sys/fs/cgroup/idle/io.stat", &stat(sample));
        let (outcome, snapshot) = tree.read(&mut source);
        assert_eq!(outcome, Ok(()));
        seen.push((group(&snapshot, "/").cpu_usage.get(), io(&snapshot, "/idle", "sda").write_bytes.get()));
    }
    let expected = [(Some(100_000), Some(1)), (Some(200_000), Some(2)), (Some(300_000), Some(3))];
    assert_eq!(seen, expected);
}
