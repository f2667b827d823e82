//! Trials with three containers, each with its own control group and namespaces: one of them slows the others down, or
//! none does.

use crate::cgroup::{Cgroup, Controller};
use crate::disk::{DiskSpec, SimulatedDisk, write_file};
use crate::error::Result;
use crate::expect::{Expect, InterferenceExpect};
use crate::interrupt;
use crate::load_process::LoadCommand;
use crate::netns::NetNs;
use crate::testbed::Testbed;
use crate::trial::Trial;
use std::time::Duration;

pub const TRIALS: &[Trial] = &[
    Trial {
        name: "interference.cpu",
        what: "a container computes with many threads; two others want the CPU now and then",
        setup: |bed| {
            let all = Containers::new(bed, &[Controller::Memory, Controller::Io])?;
            let threads = bed.range(4..=10);
            all.noisy.load("spin")?.with("threads", threads).start(bed)?;
            for container in [&all.busy, &all.light] {
                let (busy, every) = (bed.range(1_000..=4_000), bed.range(10_000..=20_000));
                let bursts = container.load("bursts")?.with("threads", 1);
                bursts.with("busy-us", busy).with("every-us", every).start(bed)?;
            }
            Ok(all.expect("cpu"))
        },
        ..INTERFERENCE
    },
    Trial {
        name: "interference.disk",
        what: "a container keeps many requests in flight; two others read from the same disk now and then",
        setup: |bed| {
            let all = Containers::new(bed, &[Controller::Memory, Controller::Io])?;
            let channels = bed.range(1..=3);
            let latency = Duration::from_micros(bed.range(2_000..=5_000));
            let mut disk = SimulatedDisk::new(bed, 2 << 30, DiskSpec::new(latency, channels))?;
            disk.enable_delays()?;
            let size = bed.choose(&[16, 64]) << 10;
            let jobs = channels * bed.range(6..=10);
            let read = |container: &Container| -> Result<LoadCommand> {
                let read = container.load("read")?.with("path", disk.device.node.display()).with("size", size);
                Ok(read.flag("random").flag("direct"))
            };
            read(&all.noisy)?.with("jobs", jobs).start(bed)?;
            read(&all.busy)?.with("rate", size * bed.range(15..=40)).start(bed)?;
            read(&all.light)?.with("rate", size * bed.range(3..=6)).start(bed)?;
            Ok(all.expect("disk"))
        },
        ..INTERFERENCE
    },
    Trial {
        name: "interference.memory",
        what: "three containers share a memory limit; one of them has most of it, and another one rereads a file that no longer fits",
        setup: |bed| {
            let all = Containers::new(bed, &[Controller::Memory, Controller::Io])?;
            let limit = bed.range(160..=256) << 20;
            let latency = Duration::from_micros(bed.range(800..=1500));
            let mut disk = SimulatedDisk::new(bed, 512 << 20, DiskSpec::new(latency, 16))?;
            let file = disk.device.ext4(bed, "fs", &[])?.join("working-set");
            write_file(&file, limit / 2)?;
            all.pod.set_memory_limit_without_swap(limit)?;
            disk.enable_delays()?;
            let held = limit * bed.range(65..=80) / 100;
            all.noisy.load("touch")?.with("bytes", held).with("rate", bed.range(1_000..=50_000)).start(bed)?;
            let read = all.busy.load("read")?.with("path", file.display()).with("size", 64 << 10);
            read.with("jobs", bed.range(1..=4)).flag("random").start(bed)?;
            all.light.load("bursts")?.with("threads", 1).with("busy-us", 500).with("every-us", 20_000).start(bed)?;
            // There are no refaults until the cache has filled up.
            interrupt::sleep(Duration::from_secs(3))?;
            Ok(all.expect("memory"))
        },
        ..INTERFERENCE
    },
    Trial {
        name: "interference.network",
        what: "a container sends more than the uplink takes; two others send a little through the same queue",
        setup: |bed| {
            let all = Containers::new(bed, &[Controller::Memory, Controller::Io])?;
            let far = uplink(bed, &all)?;
            let megabits = bed.range(20..=60);
            all.host.shape("uplink", megabits, "256kb", "50ms")?;
            let port = bed.port();
            let to = format!("{FAR}:{port}");
            LoadCommand::new("sink").with("at", &to).in_netns(&far)?.start(bed)?;
            if bed.coin() {
                let streams = bed.range(2..=4);
                all.noisy.load("source")?.with("to", &to).with("streams", streams).start(bed)?;
            } else {
                let rate = megabits * 1_000_000 / 8 / 1200 * bed.range(13..=20) / 10;
                all.noisy.load("udp-source")?.with("to", &to).with("rate", rate).with("size", 1200).start(bed)?;
            }
            for (container, rate) in [(&all.busy, bed.range(100..=300)), (&all.light, bed.range(20..=50))] {
                container.load("udp-source")?.with("to", &to).with("rate", rate).with("size", 400).start(bed)?;
            }
            Ok(all.expect("network"))
        },
        ..INTERFERENCE
    },
    Trial {
        name: "interference.none",
        what: "three containers compute, read from one disk and send through one link, and get what they want",
        setup: |bed| {
            let all = Containers::new(bed, &[Controller::Cpu, Controller::Memory, Controller::Io])?;
            let far = uplink(bed, &all)?;
            all.host.shape("uplink", 100, "256kb", "50ms")?;
            let mut disk = SimulatedDisk::new(bed, 2 << 30, DiskSpec::new(Duration::from_millis(1), 16))?;
            disk.enable_delays()?;
            let to = format!("{FAR}:{}", bed.port());
            LoadCommand::new("sink").with("at", &to).in_netns(&far)?.start(bed)?;
            for container in [&all.noisy, &all.busy, &all.light] {
                let (busy, every) = (bed.range(300..=1_500), bed.range(10_000..=20_000));
                let bursts = container.load("bursts")?.with("threads", 1);
                bursts.with("busy-us", busy).with("every-us", every).start(bed)?;
                let read = container.load("read")?.with("path", disk.device.node.display()).with("size", 16 << 10);
                let rate = (16 << 10) * bed.range(20..=100);
                read.flag("random").flag("direct").with("jobs", 2).with("rate", rate).start(bed)?;
                let send = container.load("udp-source")?.with("to", &to);
                send.with("rate", bed.range(100..=500)).with("size", 1000).start(bed)?;
            }
            Ok(Expect::interference(InterferenceExpect::None))
        },
        ..INTERFERENCE
    },
    Trial {
        name: "interference.self",
        what: "a container is held back by its own limits of CPU time and memory and by its own disk; two others are not",
        setup: |bed| {
            let all = Containers::new(bed, &[Controller::Cpu, Controller::Memory, Controller::Io])?;
            all.noisy.group.set_cpu_quota(bed.range(10_000..=30_000), 100_000)?;
            let limit = bed.range(48..=64) << 20;
            let mut disk = SimulatedDisk::new(bed, 512 << 20, DiskSpec::new(Duration::from_millis(1), 2))?;
            let file = disk.device.ext4(bed, "fs", &[])?.join("working-set");
            write_file(&file, 3 * limit)?;
            all.noisy.group.set_memory_limit_without_swap(limit)?;
            disk.enable_delays()?;
            all.noisy.load("spin")?.with("threads", bed.range(2..=6)).start(bed)?;
            let read = all.noisy.load("read")?.with("path", file.display()).with("size", 64 << 10);
            read.with("jobs", 8).flag("random").start(bed)?;
            for container in [&all.busy, &all.light] {
                let (busy, every) = (bed.range(300..=1_000), bed.range(10_000..=20_000));
                let bursts = container.load("bursts")?.with("threads", 1);
                bursts.with("busy-us", busy).with("every-us", every).start(bed)?;
            }
            Ok(Expect::interference(InterferenceExpect::None))
        },
        ..INTERFERENCE
    },
];

const INTERFERENCE: Trial = Trial { needs_bpf: true, ..Trial::IDLE };

/// Address of the far end of the uplink.
const FAR: &str = "10.215.0.2";

/// Resources that a container runtime creates: a control group named by an id, and namespaces.
struct Container {
    group: Cgroup,
    ns: NetNs,
}

impl Container {
    fn new(bed: &mut Testbed, pod: &Cgroup, name: &str) -> Result<Self> {
        let id = format!("{:064x}", bed.range(1..=u128::MAX));
        Ok(Self { group: pod.child(bed, &id)?, ns: NetNs::new(bed, name)? })
    }

    fn load(&self, name: &str) -> Result<LoadCommand> {
        LoadCommand::in_own_pids(name)?.in_cgroup(&self.group)?.in_netns(&self.ns)
    }
}

struct Containers {
    pod: Cgroup,
    /// Namespace that the packets of all containers pass through.
    host: NetNs,
    noisy: Container,
    busy: Container,
    light: Container,
}

impl Containers {
    fn new(bed: &mut Testbed, controllers: &[Controller]) -> Result<Self> {
        let pod = Cgroup::new(bed, "pod", controllers)?;
        let host = NetNs::new(bed, "host")?;
        let [noisy, busy, light] = ["noisy", "busy", "light"].map(|name| Container::new(bed, &pod, name));
        Ok(Self { host, noisy: noisy?, busy: busy?, light: light?, pod })
    }

    /// Expects the noisy container to slow down the others.
    fn expect(&self, resource: &'static str) -> Expect {
        let victims = [&self.busy, &self.light].map(|container| container.group.path()).to_vec();
        Expect::interference(InterferenceExpect::Pair { resource, victims, culprit: self.noisy.group.path() })
    }
}

/// Connects all containers to the host, and the host through `uplink` to a namespace at the far end.
fn uplink(bed: &mut Testbed, all: &Containers) -> Result<NetNs> {
    let far = NetNs::new(bed, "far")?;
    let host = &all.host;
    host.ip(&["link", "add", "uplink", "type", "veth", "peer", "name", "veth1", "netns", far.name()])?;
    host.up("uplink", "10.215.0.1")?;
    far.up("veth1", FAR)?;
    far.ip(&["route", "add", "default", "via", "10.215.0.1"])?;
    for (number, container) in (1..).zip([&all.noisy, &all.busy, &all.light]) {
        let (ns, inside) = (&container.ns, format!("inside{number}"));
        host.ip(&["link", "add", &inside, "type", "veth", "peer", "name", "eth0", "netns", ns.name()])?;
        host.up(&inside, &format!("10.215.{number}.1"))?;
        ns.up("eth0", &format!("10.215.{number}.2"))?;
        ns.ip(&["route", "add", "default", "via", &format!("10.215.{number}.1")])?;
    }
    host.exec("sh", &["-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])?;
    Ok(far)
}
