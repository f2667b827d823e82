//! Trials of features that only version 2 of control groups has.

use super::{null_disks, reader};
use crate::cgroup::{Cgroup, Controller};
use crate::expect::EntityPattern::{self, Process};
use crate::expect::Expect;
use crate::load_process::LoadCommand;
use crate::trial::Trial;
use crate::vm::{VmSpec, background, shell};

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "cgroup.memory_high",
        what: "a control group is above memory.high, and is slowed down although the machine has memory",
        finding: Some("mem.cgroup_limit"),
        never: &["mem.thrashing", "mem.leak", "cpu.throttled", "disk.saturated"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let group = Cgroup::new(bed, "high", &[Controller::Memory])?;
            let high = bed.range(40..=80) << 20;
            shell(&format!("echo {high} >/sys/fs/cgroup{}/memory.high", group.path()))?;
            let touch =
                LoadCommand::new("hog").with("rate", 16 << 20).with("most", 400 << 20).in_cgroup(&group)?.start(bed)?;
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([group.clone()]).culprit([Process(touch.pid), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cgroup.nested_high",
        what: "a control group within one that is above memory.high is slowed down",
        finding: Some("mem.cgroup_limit"),
        never: &["mem.thrashing", "mem.leak", "cpu.throttled", "disk.saturated"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let outer = Cgroup::new(bed, "outer", &[Controller::Memory])?;
            let inner = outer.child(bed, "inner")?;
            shell(&format!("echo {} >/sys/fs/cgroup{}/memory.high", bed.range(40..=80) << 20, outer.path()))?;
            let hog =
                LoadCommand::new("hog").with("rate", 16 << 20).with("most", 400 << 20).in_cgroup(&inner)?.start(bed)?;
            let [outer, inner] = [&outer, &inner].map(EntityPattern::cgroup);
            Ok(Expect::subject([outer.clone()]).culprit([Process(hog.pid), inner, outer]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cgroup.nested_quota",
        what: "a program in a control group is stopped by cpu.max of the one around it",
        finding: Some("cpu.throttled"),
        never: &["cpu.saturated", "cpu.single_thread", "cpu.steal"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let outer = Cgroup::new(bed, "outer", &[Controller::Cpu])?;
            let inner = outer.child(bed, "inner")?;
            outer.set_cpu_quota(bed.range(20..=50) * 1000, 100_000)?;
            let spin = LoadCommand::new("spin").with("threads", 2).in_cgroup(&inner)?.start(bed)?;
            let [outer, inner] = [&outer, &inner].map(EntityPattern::cgroup);
            Ok(Expect::subject([outer.clone()]).culprit([Process(spin.pid), inner, outer]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cgroup.pids",
        what: "a control group has as many tasks as it may, and a program in it keeps trying to start more",
        finding: Some("limit.processes"),
        never: &["limit.open_files", "cpu.saturated"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let group = Cgroup::new(bed, "pids", &[Controller::Cpu])?;
            let path = group.path();
            shell(&format!("echo 12 >/sys/fs/cgroup{path}/pids.max"))?;
            background(
                bed,
                &format!(
                    "echo $$ >/sys/fs/cgroup{path}/cgroup.procs; for i in $(seq 10); do sleep 1000 & done; while :; do (sleep 5 & sleep 5 & sleep 5 &) 2>/dev/null; sleep 0.1; done"
                ),
            )?;
            Ok(Expect::subject([EntityPattern::cgroup(&group)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cgroup.io_max",
        what: "a control group reads against io.max, on a disk that could do more",
        finding: Some("disk.throttled"),
        never: &["disk.saturated", "disk.depth_one", "disk.slow_device"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(256, &[300])?;
            let group = Cgroup::new(bed, "iomax", &[Controller::Io])?;
            group.set_read_limit("nullb0", crate::cgroup::ReadLimit::Requests(bed.range(30..=100)))?;
            let read = reader("nullb0", 64 << 10).with("jobs", bed.range(1..=4)).in_cgroup(&group)?.start(bed)?;
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([group.clone()]).culprit([Process(read.pid), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cgroup.io_weight",
        what: "two control groups read, one of them with a hundredth of the weight, on a disk that the kernel shares out by cost",
        finding: Some("disk.throttled"),
        never: &["disk.saturated", "disk.slow_device", "disk.hung"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(256, &[1_000])?;
            let first = Cgroup::new(bed, "first", &[Controller::Io])?;
            let later = Cgroup::new(bed, "later", &[Controller::Io])?;
            shell(&format!(
                "{}; echo 1000 >/sys/fs/cgroup{}/io.weight; echo 10 >/sys/fs/cgroup{}/io.weight",
                shared_by_cost("nullb0"),
                first.path(),
                later.path()
            ))?;
            let heavy = reader("nullb0", 16 << 10).with("jobs", 8).in_cgroup(&first)?.start(bed)?;
            let light = reader("nullb0", 16 << 10).with("jobs", 4).in_cgroup(&later)?.start(bed)?;
            // The heavy one could do more, too.
            let held_back = [Process(heavy.pid), Process(light.pid)];
            Ok(Expect::subject(held_back.clone()).culprit(held_back))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cgroup-pids-spare",
        what: "a control group has most of the tasks that it may have, and starts a few more without being refused",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let group = Cgroup::new(bed, "pids", &[Controller::Cpu])?;
            let path = group.path();
            shell(&format!("echo 20 >/sys/fs/cgroup{path}/pids.max"))?;
            let script = format!(
                "echo $$ >/sys/fs/cgroup{path}/cgroup.procs; for i in $(seq 10); do sleep 1000 & done
                while :; do sleep 2 & sleep 1; done"
            );
            background(bed, &script)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cgroup-weighted",
        what: "a control group with a small io.weight reads at a moderate rate from a disk that nobody else uses",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            null_disks(256, &[1_000])?;
            let group = Cgroup::new(bed, "light", &[Controller::Io])?;
            shell(&format!("{}; echo 10 >/sys/fs/cgroup{}/io.weight", shared_by_cost("nullb0"), group.path()))?;
            reader("nullb0", 16 << 10).with("rate", 50 * (16 << 10)).in_cgroup(&group)?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cgroup-cpuset-spare",
        what: "a control group may use one CPU, and does so now and then",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let group = Cgroup::new(bed, "cpuset", &[Controller::Cpu])?;
            shell(&on_one_cpu(&group))?;
            let bursts = LoadCommand::new("bursts").with("threads", 1).with("busy-us", 5_000).with("every-us", 50_000);
            bursts.in_cgroup(&group)?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cgroup.cpuset",
        what: "a control group of busy programs may use one CPU, while the other is idle",
        finding: Some("cpu.saturated"),
        never: &["cpu.throttled", "cpu.single_thread", "cpu.steal"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let group = Cgroup::new(bed, "cpuset", &[Controller::Cpu])?;
            shell(&on_one_cpu(&group))?;
            let spin = LoadCommand::new("spin").with("threads", 4).in_cgroup(&group)?.start(bed)?;
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([
                group.clone(),
                EntityPattern::Host,
                Process(spin.pid),
                EntityPattern::Named("cpuset", "1".into()),
            ])
            .culprit([Process(spin.pid), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cgroup-below-high",
        what: "a control group stays below its memory.high",
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let group = Cgroup::new(bed, "below", &[Controller::Memory])?;
            shell(&format!("echo {} >/sys/fs/cgroup{}/memory.high", 200 << 20, group.path()))?;
            LoadCommand::new("touch").with("bytes", 60 << 20).with("rate", 1000).in_cgroup(&group)?.start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "guest-idle",
        what: "nothing runs on a machine with control groups of version 2 only",
        vm: Some(&VmSpec::PLAIN),
        ..Trial::IDLE
    },
];

/// Returns a script that makes the kernel share a disk by cost (blk-iocost). The cost model allows 1000 reads per
/// second; the disk can do many more.
fn shared_by_cost(disk: &str) -> String {
    format!(
        "d=$(cat /sys/block/{disk}/dev)
        echo \"$d ctrl=user model=linear rbps=100000000 rseqiops=1000 rrandiops=1000 wbps=100000000 wseqiops=1000 wrandiops=1000\" >/sys/fs/cgroup/io.cost.model
        echo \"$d enable=1 ctrl=user rpct=0 wpct=0 min=100.00 max=100.00\" >/sys/fs/cgroup/io.cost.qos"
    )
}

/// Returns a script that restricts a group to the second CPU.
fn on_one_cpu(group: &Cgroup) -> String {
    format!("echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control; echo 1 >/sys/fs/cgroup{}/cpuset.cpus", group.path())
}
