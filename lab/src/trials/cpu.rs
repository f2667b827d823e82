//! CPU trials: too little time, limits, and overhead.

use crate::cgroup::{Cgroup, Controller};
use crate::error::{Error, Result};
use crate::expect::EntityPattern::{self, Command, Host, Named, Process, Thread};
use crate::expect::Expect;
use crate::link::{add_long_chain, set_rps_cpu, veth_pair};
use crate::load_process::LoadCommand;
use crate::testbed::Testbed;
use crate::trial::Trial;
use std::thread::available_parallelism;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "cpu.saturated",
        what: "more threads compute than there are CPUs",
        quick: true,
        finding: Some("cpu.saturated"),
        never: &["cpu.single_thread", "cpu.throttled", "cpu.steal"],
        setup: |bed| {
            let threads = cpus()? + bed.range(1..=2);
            let processes = bed.range(2..=3);
            let spinners = start_each(bed, processes, || LoadCommand::new("spin").with("threads", threads))?;
            Ok(Expect::subject([Host]).culprit(spinners))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cpu.saturated.cron",
        what: "several processes compute endlessly, and beside them a loop starts one short job after another",
        finding: Some("cpu.saturated"),
        never: &["cpu.short_lived", "cpu.single_thread", "cpu.throttled", "cpu.steal"],
        setup: |bed| {
            // Three per CPU leave the loop a quarter of one CPU.
            start_each(bed, 3 * cpus()?, || LoadCommand::new("spin"))?;
            let work = bed.range(60..=200);
            LoadCommand::new("build").with("jobs", 1).with("work-ms", work).start(bed)?;
            Ok(Expect::subject([Host]).culprit([Command("lab-spin")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cpu.saturated.workers",
        what: "single-threaded workers together use more CPU time than one process with fewer threads, but less each",
        finding: Some("cpu.saturated"),
        never: &["cpu.single_thread", "cpu.throttled", "cpu.steal"],
        setup: |bed| {
            let workers = 3 * cpus()? + bed.range(0..=2);
            start_each(bed, workers, || LoadCommand::new("spin"))?;
            // Every thread gets the same share, so the number of threads decides which program uses more. A burst as long
            // as its period makes the thread compute all the time.
            let threads = workers - bed.range(1..=2);
            let bursts = LoadCommand::new("bursts").with("threads", threads);
            bursts.with("busy-us", 20_000).with("every-us", 20_000).start(bed)?;
            Ok(Expect::subject([Host]).culprit([Command("lab-spin")]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cpu.saturated.burst",
        what: "more threads compute than there are CPUs, for three of nine seconds; nothing computes in the others",
        finding: Some("cpu.saturated"),
        never: &["cpu.single_thread", "cpu.throttled", "cpu.steal"],
        setup: |bed| {
            let threads = 2 * cpus()? + bed.range(1..=3);
            let load = LoadCommand::new("spin").with("threads", threads).with("for-ms", bed.range(2800..=3300));
            let load = load.with("rest-ms", bed.range(5500..=6000));
            let spinner = Process(load.start(bed)?.pid);
            Ok(Expect::subject([Host]).culprit([spinner]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cpu.single_thread",
        what: "one thread of a process fills a CPU while its siblings sleep and another CPU is idle",
        quick: true,
        finding: Some("cpu.single_thread"),
        never: &["cpu.saturated", "cpu.system_time"],
        setup: |bed| {
            let idle = bed.range(3..=20);
            let spin = LoadCommand::new("spin").with("idle", idle).start(bed)?;
            let tid = spin.ready_note.parse();
            Ok(Expect::subject([Thread(tid.map_err(|_| Error::failed("the load printed no thread id"))?)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cpu.system_time",
        what: "one process per CPU makes nothing but system calls",
        finding: Some("cpu.system_time"),
        never: &["cpu.interrupts", "cpu.short_lived"],
        setup: |bed| {
            let call = bed.choose(&["zero", "random", "map"]);
            let bytes = bed.range(4..=64) << 16;
            let load = || LoadCommand::new("syscalls").with("call", call).with("bytes", bytes);
            Ok(Expect::subject(start_each(bed, cpus()?, load)?))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cpu.throttled",
        what: "a cgroup computes against a quota of less than one CPU",
        quick: true,
        finding: Some("cpu.throttled"),
        never: &["cpu.saturated", "cpu.single_thread"],
        setup: |bed| {
            let group = Cgroup::new(bed, "quota", &[Controller::Cpu])?;
            let period = bed.choose(&[50_000, 100_000]);
            group.set_cpu_quota(period * bed.range(20..=60) / 100, period)?;
            let threads = bed.range(1..=3);
            let spin = LoadCommand::new("spin").with("threads", threads).in_cgroup(&group)?.start(bed)?;
            let group = EntityPattern::cgroup(&group);
            Ok(Expect::subject([group.clone()]).culprit([Process(spin.pid), group]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cpu.short_lived",
        what: "a parent starts tiny programs one after another, none of which lives as long as a sample",
        finding: Some("cpu.short_lived"),
        never: &["cpu.system_time", "cpu.single_thread"],
        setup: |bed| {
            let together = bed.range(1..=3);
            let forks = LoadCommand::new("forks").with("together", together).start(bed)?;
            Ok(Expect::subject([Process(forks.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cpu.context_switches",
        what: "the threads of a process pass one byte around through pipes and do nothing else",
        finding: Some("cpu.context_switches"),
        never: &["cpu.saturated", "cpu.system_time", "lock.contention"],
        setup: |bed| {
            let threads = bed.range(2..=8);
            let ring = LoadCommand::new("pipe-ring").with("threads", threads).start(bed)?;
            Ok(Expect::subject([Process(ring.pid)]).culprit([Process(ring.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cpu.migrations",
        what: "a computing thread binds itself to one CPU after another, thousands of times a second",
        finding: Some("cpu.migrations"),
        never: &["cpu.saturated", "cpu.context_switches", "lock.contention"],
        setup: |bed| {
            // A quarter of its time or more goes into refilling caches, so that it would fill no CPU without.
            let (every, bytes) = (bed.range(100..=350), bed.range(128..=768) << 10);
            let migrate = LoadCommand::new("migrate").with("every-us", every).with("bytes", bytes).start(bed)?;
            Ok(Expect::subject([Process(migrate.pid)]).culprit([Process(migrate.pid)]))
        },
        ..Trial::IDLE
    },
    Trial {
        name: "cpu.irq_imbalance",
        what: "RPS steers all packets of a link to one CPU, where each passes a long packet filter",
        finding: Some("cpu.irq_imbalance"),
        never: &["cpu.saturated", "cpu.system_time", "net.small_packets", "net.loss"],
        setup: |bed| {
            let cpus = cpus()?;
            if cpus < 2 {
                return Err(Error::Missing("a second CPU".into()));
            }
            let (cpu, rules) = (bed.range(0..cpus), bed.range(10_000..=14_000));
            // The port is closed, and the kernel limits its rate of ICMP errors.
            send_filtered_packets(bed, cpu, rules, 40_000, 60_000)?;
            let subject = Named("cpu", format!("cpu{cpu}"));
            Ok(Expect::subject([subject]).culprit([EntityPattern::interface("veth1")]))
        },
        ..Trial::IDLE
    },
    Trial { quick: true, ..Trial::IDLE },
    Trial {
        name: "nice-batch",
        what: "a batch job of the lowest priority computes on fewer CPUs than there are",
        quick: true,
        setup: |bed| {
            let threads = bed.range(1..=(cpus()? - 1).max(1));
            LoadCommand::new("spin").with("threads", threads).with("nice", 19).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "build",
        what: "as many computing jobs as CPUs come and go, and nothing else has to wait for them",
        slightly: &["cpu.saturated"],
        setup: |bed| {
            let work = bed.range(200..=800);
            LoadCommand::new("build").with("jobs", cpus()?).with("work-ms", work).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "busy-server",
        what: "a server answers thousands of requests a second, each with a little work and a few context switches",
        setup: |bed| {
            let (clients, work) = (bed.range(2..=4), bed.range(30..=60));
            let rate = bed.range(3000..=5000) / clients;
            LoadCommand::new("serve").with("clients", clients).with("rate", rate).with("work-us", work).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "wanderer",
        what: "a batch job of the lowest priority binds itself to another CPU several times a second",
        setup: |bed| {
            let every = bed.range(50..=200) * 1000;
            LoadCommand::new("migrate").with("every-us", every).with("bytes", 512 << 10).with("nice", 19).start(bed)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
    Trial {
        name: "softirqs",
        what: "RPS steers all packets of a link to one CPU, which could process more",
        setup: |bed| {
            let rules = bed.range(2_000..=4_000);
            send_filtered_packets(bed, 0, rules, 15_000, 25_000)?;
            Ok(Expect::healthy())
        },
        ..Trial::IDLE
    },
];

fn cpus() -> Result<u64> {
    Ok(available_parallelism()?.get() as u64)
}

fn start_each(bed: &mut Testbed, count: u64, load: impl Fn() -> LoadCommand) -> Result<Vec<EntityPattern>> {
    (0..count).map(|_| Ok(Process(load().start(bed)?.pid))).collect()
}

/// Sends datagrams over a veth pair. The receiving side processes all of them on one CPU, with this many filter rules.
fn send_filtered_packets(bed: &mut Testbed, cpu: u64, rules: u64, least_rate: u64, most_rate: u64) -> Result<()> {
    let link = veth_pair(bed)?;
    add_long_chain(bed, &link.far, rules)?;
    set_rps_cpu(&link.far, "veth1", cpu)?;
    let (rate, size) = (bed.range(least_rate..=most_rate), bed.range(600..=1400));
    let source = LoadCommand::new("udp-source").with("to", link.address(bed.port()));
    source.with("rate", rate).with("size", size).in_netns(&link.near)?.start(bed)?;
    Ok(())
}
