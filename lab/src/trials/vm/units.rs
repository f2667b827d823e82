//! Trials with systemd units and user slices, with the limits that systemd sets (systemd.resource-control(5)).

use super::{null_disks, random_reads};
use crate::error::Result;
use crate::expect::EntityPattern::{self, Command, Host, Named, Process};
use crate::expect::Expect;
use crate::load_process::LoadCommand;
use crate::trial::Trial;
use crate::vm::{VmSpec, shell};

const SYSTEMD: VmSpec = VmSpec { systemd: true, ..VmSpec::PLAIN };

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "unit.cpu_quota",
        what: "a service is stopped by its CPUQuota=, while the machine has CPU time to spare",
        finding: Some("cpu.throttled"),
        never: &["cpu.saturated", "cpu.single_thread", "cpu.steal"],
        vm: Some(&SYSTEMD),
        setup: |bed| {
            let quota = bed.range(15..=40);
            service("batch", &[&format!("CPUQuota={quota}%")], "while :; do :; done")?;
            let group = group("/system.slice/wslab-batch.service");
            Ok(Expect::subject([group.clone()]).culprit([Command("sh"), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "unit.memory_high",
        what: "a scope is above its MemoryHigh=, and is slowed down although the machine has memory",
        finding: Some("mem.cgroup_limit"),
        never: &["mem.thrashing", "mem.leak", "cpu.throttled", "disk.saturated"],
        vm: Some(&SYSTEMD),
        setup: |bed| {
            let high = format!("MemoryHigh={}M", bed.range(40..=80));
            let hog = LoadCommand::in_scope("hog", "wslab-hog", "system.slice", &[&high])?;
            let hog = hog.with("rate", 16 << 20).with("most", 400 << 20).start(bed)?;
            let group = group("/system.slice/wslab-hog.scope");
            Ok(Expect::subject([group.clone()]).culprit([Process(hog.pid), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "unit.io_max",
        what: "a scope reads against its IOReadIOPSMax=, on a disk that could do more",
        finding: Some("disk.throttled"),
        never: &["disk.saturated", "disk.depth_one", "disk.slow_device"],
        vm: Some(&SYSTEMD),
        setup: |bed| {
            null_disks(256, &[300])?;
            let most = format!("IOReadIOPSMax=/dev/nullb0 {}", bed.range(30..=100));
            let read = LoadCommand::in_scope("read", "wslab-read", "system.slice", &[&most])?;
            let read = random_reads(read, "nullb0", 64 << 10).with("jobs", bed.range(1..=4)).start(bed)?;
            let group = group("/system.slice/wslab-read.scope");
            Ok(Expect::subject([group.clone()]).culprit([Process(read.pid), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "unit.tasks_max",
        what: "a service has as many tasks as its TasksMax= allows, and keeps trying to start more",
        finding: Some("limit.processes"),
        never: &["limit.open_files", "cpu.saturated"],
        vm: Some(&SYSTEMD),
        setup: |_| {
            let script = "for i in $(seq 10); do sleep 1000 & done
                          while :; do (sleep 5 & sleep 5 & sleep 5 &) 2>/dev/null; sleep 0.1; done";
            service("forks", &["TasksMax=12"], script)?;
            Ok(Expect::subject([group("/system.slice/wslab-forks.service")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "unit.allowed_cpus",
        what: "a scope of busy threads may use one CPU (AllowedCPUs=), while the other is idle",
        finding: Some("cpu.saturated"),
        never: &["cpu.throttled", "cpu.single_thread", "cpu.steal"],
        vm: Some(&SYSTEMD),
        setup: |bed| {
            let spin = LoadCommand::in_scope("spin", "wslab-spin", "system.slice", &["AllowedCPUs=1"])?;
            let spin = spin.with("threads", 4).start(bed)?;
            let group = group("/system.slice/wslab-spin.scope");
            let subjects = [group.clone(), Host, Process(spin.pid), Named("cpuset", "1".into())];
            Ok(Expect::subject(subjects).culprit([Process(spin.pid), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "user.cpu_quota",
        what: "a program of a user's session is stopped by the quota of the user's slice",
        finding: Some("cpu.throttled"),
        never: &["cpu.saturated", "cpu.single_thread", "cpu.steal"],
        vm: Some(&SYSTEMD),
        setup: |bed| {
            let spin = LoadCommand::in_scope("spin", "wslab-session", "user-1000.slice", &[])?;
            let spin = spin.with("threads", 2).start(bed)?;
            shell(&format!("systemctl set-property --runtime user-1000.slice CPUQuota={}%", bed.range(20..=50)))?;
            let slice = "/user.slice/user-1000.slice";
            let [slice, session] = [slice.to_owned(), format!("{slice}/wslab-session.scope")].map(|path| group(&path));
            Ok(Expect::subject([slice.clone()]).culprit([Process(spin.pid), session, slice]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "unit.delegated",
        what: "a service that manages its own control groups (Delegate=) has given one of them too little CPU time",
        finding: Some("cpu.throttled"),
        never: &["cpu.saturated", "cpu.single_thread", "cpu.steal"],
        vm: Some(&SYSTEMD),
        setup: |bed| {
            let manager = "/system.slice/wslab-manager.service";
            let script = format!(
                "cd /sys/fs/cgroup{manager}; mkdir -p main job; for p in $(cat cgroup.procs); do echo $p >main/cgroup.procs; done
                echo +cpu >cgroup.subtree_control; echo {} 100000 >job/cpu.max
                sh -c \"echo \\$\\$ >job/cgroup.procs; while :; do :; done\" & wait",
                bed.range(15..=40) * 1000
            );
            service("manager", &["Delegate=yes"], &script)?;
            let job = group(&format!("{manager}/job"));
            Ok(Expect::subject([job.clone()]).culprit([Command("sh"), job]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "unit-within-limits",
        what: "a scope stays below its CPUQuota= and MemoryHigh=, another below its IOReadIOPSMax=",
        vm: Some(&SYSTEMD),
        setup: |bed| {
            let limits = ["CPUQuota=150%", "MemoryHigh=200M"];
            let bursts = LoadCommand::in_scope("bursts", "wslab-bursts", "system.slice", &limits)?;
            bursts.with("threads", 1).with("busy-us", 5_000).with("every-us", 50_000).start(bed)?;
            null_disks(256, &[300])?;
            let limit = ["IOReadIOPSMax=/dev/nullb0 400"];
            let read = LoadCommand::in_scope("read", "wslab-read", "system.slice", &limit)?;
            random_reads(read, "nullb0", 16 << 10).with("rate", 50 * (16 << 10)).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "systemd-idle",
        what: "nothing runs on a machine but systemd and its services",
        vm: Some(&SYSTEMD),
        ..Trial::IDLE
    },
];

fn group(path: &str) -> EntityPattern {
    Named("cgroup", path.to_owned())
}

/// Starts a shell script as the service `wslab-NAME`, with these properties.
fn service(name: &str, properties: &[&str], script: &str) -> Result<()> {
    let properties: String = properties.iter().map(|property| format!(" -p '{property}'")).collect();
    shell(&format!("systemd-run --quiet --unit=wslab-{name}{properties} sh -c '{script}'")).map(drop)
}
