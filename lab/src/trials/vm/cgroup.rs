//! What only version 2 of control groups has.

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
        name: "cgroup.cpuset",
        what: "a control group of busy programs may use one CPU, while the other is idle",
        finding: Some("cpu.saturated"),
        never: &["cpu.throttled", "cpu.single_thread", "cpu.steal"],
        vm: Some(&VmSpec::PLAIN),
        setup: |bed| {
            let group = Cgroup::new(bed, "cpuset", &[Controller::Cpu])?;
            shell(&format!(
                "echo +cpuset >/sys/fs/cgroup/cgroup.subtree_control; echo 1 >/sys/fs/cgroup{}/cpuset.cpus",
                group.path()
            ))?;
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
