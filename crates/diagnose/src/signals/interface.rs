//! Network interfaces and the shapers on them.

use super::core::kernel_shares;
use super::nic::{self, NicCounts, QueueCounts};
use super::shaper;
use super::task::TaskUse;
use crate::signal::{Entity, netns, over, share_of_true, signals, sum};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{Interface, Link, MachineInfo, PacketSize, Qdisc};
use whyslow_model::histogram::Histogram;
use whyslow_model::value::Counter;
use whyslow_model::window::{Change, Window};
use whyslow_quantities::{Quantity, interface};

/// Drivers of the hardware that QEMU emulates (hw/net).
const EMULATED_DRIVERS: [&str; 7] = ["e1000", "e1000e", "igb", "8139cp", "8139too", "pcnet32", "ne2k-pci"];

/// Share of its capacity from which an interface counts as full in a sample; framing and acknowledgements take the rest.
const FULL: f64 = 0.85;

/// Cost of packets for the machine, whichever interface they cross.
#[derive(Clone, Copy, Default)]
struct PacketWork {
    /// Packets through all interfaces.
    packets: Option<f64>,
    /// Time in the kernel, in CPUs.
    kernel: Option<f64>,
    /// Time in the kernel of the CPU or thread with the most of it.
    fullest: Option<f64>,
}

impl PacketWork {
    fn from_window(window: &Window, threads: &[TaskUse]) -> Self {
        let shares = kernel_shares(window);
        let of_threads = threads.iter().filter_map(kernel_need);
        Self {
            packets: window.changes().iter().filter_map(|change| interface::PACKETS.over(change)).reduce(|a, b| a + b),
            kernel: shares.iter().copied().reduce(|a, b| a + b),
            fullest: shares.iter().copied().chain(of_threads).reduce(f64::max).map(|s| s.min(1.0)),
        }
    }
}

/// Returns the share of the time in which a thread was in the kernel, or waited for a CPU to continue there.
fn kernel_need(thread: &TaskUse) -> Option<f64> {
    let system = thread.system?;
    let waited = thread.run_delay.unwrap_or(0.0) * over(thread.system, thread.cpu).unwrap_or(0.0);
    Some(system + waited)
}

/// Inputs of an interface's signals.
pub struct InterfaceUse<'w> {
    /// Whether the machine is a guest of QEMU.
    is_virtual: bool,
    work: PacketWork,
    change: &'w Change<'w, Interface>,
    link: Option<&'w Link>,
    qdiscs: Vec<&'w Change<'w, Qdisc>>,
    /// Its packets by size, in both directions, if they were traced.
    sizes: Option<Histogram>,
    /// Counters of its driver.
    nic: NicCounts,
}

impl InterfaceUse<'_> {
    fn speed(&self) -> Option<f64> {
        self.link?.speed.get().filter(|s| *s > 0.0)
    }

    /// Returns the rate of the shaper that all sent packets pass through.
    fn shaper(&self) -> Option<f64> {
        shaper::of_all(&self.qdiscs)?.last().rate.get()
    }

    fn sending(&self) -> Option<f64> {
        interface::SENDING.over(self.change)
    }

    fn receiving(&self) -> Option<f64> {
        interface::RECEIVING.over(self.change)
    }

    /// Returns the send capacity: the line's speed or the shaper's rate, the lower. Returns `None` if both are unknown.
    fn send_capacity(&self) -> Option<f64> {
        match (self.speed(), self.shaper()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Returns the share of the samples in which one direction was full.
    fn full_share(&self) -> Option<f64> {
        let send = self.full_steps(&interface::SENDING, self.send_capacity());
        let receive = self.full_steps(&interface::RECEIVING, self.speed());
        [send, receive].into_iter().flatten().reduce(f64::max)
    }

    fn full_steps(&self, rate: &Quantity<Interface>, capacity: Option<f64>) -> Option<f64> {
        let capacity = capacity?;
        let rates = rate.steps(self.change).into_iter().filter_map(|(_, rate)| rate);
        share_of_true(rates.map(|rate| rate > FULL * capacity))
    }

    fn damaged(&self) -> Option<f64> {
        self.change.grown(|i| i.rx_frame).or_else(|| self.change.grown(|i| i.rx_errors))
    }

    /// Returns the share of the steps in which a count grew; for a window since boot it is unknown, as that is one step.
    fn growing_share(&self, f: impl Fn(&Interface) -> Counter) -> Option<f64> {
        share_of_true(self.change.steps(f).filter_map(|(_, grown)| Some(grown? > 0.0)))
    }

    fn collisions(&self) -> Option<f64> {
        sum([self.change.grown(|i| i.tx_collisions), self.change.grown(|i| i.tx_carrier)])
    }

    fn qdisc(&self, f: impl Fn(&Change<'_, Qdisc>) -> Option<f64>) -> Option<f64> {
        self.qdiscs.iter().filter_map(|q| f(q)).reduce(f64::max)
    }

    fn queue_drops<T>(&self, f: impl Fn(&QueueCounts) -> Option<T>) -> Option<T> {
        self.nic.drops.as_ref().and_then(f)
    }

    fn is_emulated(&self) -> bool {
        let driver = self.link.and_then(|link| link.driver.get());
        self.is_virtual && driver.is_some_and(|driver| EMULATED_DRIVERS.contains(&driver))
    }

    fn packets(&self) -> Option<f64> {
        interface::PACKETS.over(self.change)
    }
}

signals! { i: InterfaceUse<'_>;
    quantities of i.change => interface::SENDING, interface::RECEIVING, interface::PACKETS, interface::RECEIVED_PACKETS, interface::PACKET_SIZE, interface::DROPS, interface::RING_DROPS, interface::RING_DROP_SHARE, interface::DAMAGED_SHARE, interface::SEND_ERROR_SHARE, interface::COLLISION_SHARE, interface::ERRORS, interface::ERROR_SHARE;
    "iface.speed" "bit/s" "negotiated speed of the line", "as the driver gives it; of sar, Δbytes x 8 / Δt / %ifutil in the fuller direction", "ethtool", normal "what the card and switch support" => i.speed();
    "iface.shaper_rate" "bit/s" "rate of the shaper that everything it sends passes through", "rate of a tbf at the root, ceil of the only htb class there", "rtnetlink (tc(8))", normal "absent where nothing shapes" => i.shaper();
    "iface.use" "ratio" "the fuller direction against its capacity", "max(sent / min(speed, shaper), received / speed)", "/proc/net/dev, ethtool, rtnetlink", baseline true => [over(i.sending(), i.send_capacity()), over(i.receiving(), i.speed())].into_iter().flatten().reduce(f64::max);
    "iface.full_share" "ratio" "share of the samples in which a direction ran above 85 % of its capacity", "steps with rate > 0.85 x capacity / steps", "/proc/net/dev, ethtool, rtnetlink", normal (near 0.0, "no sample above 85 %") => i.full_share();
    "iface.backlog" "bytes" "bytes that waited in the queueing discipline, mean", "mean(backlog)", "rtnetlink", normal (near 65536.0 as "near 0 bytes waiting"), better lower, baseline true => i.qdisc(|q| q.mean(|q| q.backlog));
    "iface.overlimits" "1/s" "packets the shaper held back", "Δoverlimits / Δt", "rtnetlink", normal (near 1.0 as "0/s held back") => i.qdisc(|q| q.rate(|q| q.overlimits));
    "iface.qdisc_drops" "1/s" "packets the queueing discipline dropped", "Δdrops / Δt", "rtnetlink", better lower, baseline true => i.qdisc(|q| q.rate(|q| q.drops));
    "iface.ring_dropped" "count" "the same, in the window", "Δrx_fifo", "/proc/net/dev", normal (near 10.0 as "0, or a few in a burst") => i.change.grown(|i| i.rx_fifo);
    "iface.damaged" "count" "frames that arrived damaged, in the window", "Δrx_frame, else Δrx_errors", "/proc/net/dev, ethtool", normal (near 0.0) => i.damaged();
    "iface.damaging_share" "ratio" "share of the samples in which frames arrived damaged", "steps with Δrx_frame > 0, else Δrx_errors > 0 / steps", "/proc/net/dev, ethtool", normal (near 0.0) => i.growing_share(|i| i.rx_frame).or_else(|| i.growing_share(|i| i.rx_errors));
    "iface.oversize" "count" "frames dropped because they were longer than it takes, in the window", "as the driver counts them", "ethtool -S", normal (near 0.0) => i.nic.oversize;
    "iface.oversize_share" "ratio" "the same as a share of the frames that arrived", "too long / (rx_packets + too long)", "ethtool -S", normal (near 0.0) => failed_share(i.nic.oversize, i.change.grown(|i| i.rx_packets));
    "iface.colliding_share" "ratio" "share of the samples with collisions", "steps with Δtx_collisions > 0 / steps", "/proc/net/dev", normal (near 0.0) => i.growing_share(|i| i.tx_collisions);
    "iface.ring_dropping_share" "ratio" "share of the samples in which the receive ring overflowed", "steps with Δrx_fifo > 0 / steps", "/proc/net/dev", normal (near 0.0) => i.growing_share(|i| i.rx_fifo);
    "iface.send_errors" "count" "packets that could not be sent, in the window", "Δtx_errors", "/proc/net/dev" => i.change.grown(|i| i.tx_errors);
    "iface.collisions" "count" "collisions on sending, and packets that lost their carrier, in the window", "Δ(tx_collisions + tx_carrier)", "/proc/net/dev", normal (near 0.0 as "0 on any full duplex link") => i.collisions();
    "iface.median_size" "bytes" "half of its packets are no larger, as the kernel handles them", "median of both ways", "BPF: net_dev_start_xmit, netif_receive_skb", normal "far above the headers; absent where sizes were not counted" => i.sizes.as_ref().and_then(|s| s.quantile(0.5));
    "iface.large_size" "bytes" "nineteen in twenty are no larger", "95th percentile of both ways", "BPF: net_dev_start_xmit, netif_receive_skb", normal "the MTU, or more where the card cuts" => i.sizes.as_ref().and_then(|s| s.quantile(0.95));
    "iface.packet_share" "ratio" "its part of the packets through all interfaces", "packets / Σpackets", "/proc/net/dev", normal "its part of what the kernel has to do for packets" => over(i.packets(), i.work.packets);
    "iface.packet_cost" "s" "time the machine spent in the kernel for each packet through any interface: the most one can have cost", "ΣΔ(system + irq + softirq + uncharged) / ΣΔpackets", "/proc/stat, /proc/net/dev" => over(i.work.kernel, i.work.packets);
    "iface.kernel_limit" "ratio" "share of the time that the fullest CPU spent in the kernel, or a thread spent there or waiting to go on there", "max(core.kernel of each CPU, Δstime / Δt + Δrun_delay / Δt x Δstime / Δ(utime + stime) of each thread)", "/proc/stat, /proc/PID/task/TID/stat, schedstat" => i.work.fullest;
    "iface.driver" "text" "its driver", "as the kernel gives it", "ethtool", normal "virtio_net" => i.link.and_then(|l| l.driver.get());
    "iface.emulated" "flag" "1 if it is known to be emulated hardware of a guest of QEMU", "virtualization and driver", "ethtool" => i.is_emulated();
    "iface.mtu" "bytes" "largest packet", "as the kernel gives it", "rtnetlink" => i.link.and_then(|l| l.mtu.get());
    "iface.duplex" "text" "full or half", "as the driver gives it", "ethtool", normal "full, at both ends" => i.link.and_then(|l| l.duplex.get());
    "iface.ring" "count" "packets that its receive ring holds", "as the driver gives it", "ethtool", normal "large enough for the packets of a few milliseconds" => i.link.and_then(|l| l.ring_rx.get());
    "iface.ring_max" "count" "the most that its receive ring could hold", "as the driver gives it", "ethtool", normal "as much as the card can hold" => i.link.and_then(|l| l.ring_rx_max.get());
    "iface.channels" "count" "receive queues in use", "combined + rx", "ethtool -l" => i.link.and_then(|l| l.channels.get());
    "iface.channels_max" "count" "receive queues that the card has", "combined + rx", "ethtool -l" => i.link.and_then(|l| l.channels_max.get());
    "iface.queues" "count" "receive queues that the driver counts", "number of queues", "ethtool -S" => i.nic.packets.as_ref().or(i.nic.drops.as_ref()).map(|q| q.queues);
    "iface.queue_share" "ratio" "share of the packets in the receive queue with most of them", "maximum / sum over queues", "ethtool -S", normal "as much as each other queue" => i.nic.packets.as_ref().and_then(|q| q.most).map(|(share, _)| share);
    "iface.queue_dropped" "count" "packets that its receive queues dropped, in the window", "sum over queues", "ethtool -S", normal (near 10.0 as "0, or a few in a burst") => i.queue_drops(|q| Some(q.total));
    "iface.queue_loss" "ratio" "the same as a share of the packets that arrived", "dropped / (rx_packets + dropped)", "ethtool -S", normal (near 0.02) => failed_share(i.queue_drops(|q| Some(q.total)), i.change.grown(|i| i.rx_packets));
    "iface.queue_drop_share" "ratio" "share of these in the queue with most of them", "maximum / sum over queues", "ethtool -S", normal "as much as each other queue" => i.queue_drops(|q| q.most).map(|(share, _)| share);
    "iface.queue_worst" "text" "the number of that queue", "as the driver numbers them", "ethtool -S" => i.queue_drops(|q| q.most).map(|(_, queue)| queue.to_string()).as_deref();
    "iface.paused" "count" "pause frames received, in the window: each stops sending for a moment", "as the driver counts them", "ethtool -S", normal (near 10.0 as "0, or a few in a burst") => i.nic.pauses_received;
    "iface.paused_rate" "1/s" "the same per second", "pause frames / Δt", "ethtool -S", normal (near 10.0 as "0, or a few in a burst") => over(i.nic.pauses_received, Some(i.change.seconds()).filter(|seconds| *seconds > 0.0));
    "iface.paused_share" "ratio" "the same against the packets sent", "pause frames / Δtx_packets", "ethtool -S", normal (near 0.02) => over(i.nic.pauses_received, i.change.grown(|i| i.tx_packets));
    "iface.pausing" "count" "pause frames sent, in the window: each stops the other end for a moment", "as the driver counts them", "ethtool -S", normal (near 10.0 as "0, or a few in a burst") => i.nic.pauses_sent;
    "iface.pausing_share" "ratio" "the same against the packets received", "pause frames / Δrx_packets", "ethtool -S", normal (near 0.02) => over(i.nic.pauses_sent, i.change.grown(|i| i.rx_packets));
    "iface.flow_control" "text" "pause frames: both ways, only obeyed, only requested, or off", "as negotiated", "ethtool -a", normal "off, unless the network must not lose packets (storage, RDMA)" => i.link.and_then(|l| l.flow_control.get());
    "iface.module_alarms" "text" "alarms that the transceiver raises", "flags that are on", "ethtool -m", normal "none; low received power is a dirty or damaged fibre" => i.link.and_then(|l| l.module_alarms.get());
}

/// Returns the failures as a share of failures and successes.
fn failed_share(failed: Option<f64>, well: Option<f64>) -> Option<f64> {
    over(failed, failed.zip(well).map(|(failed, well)| failed + well))
}

/// Returns the packets by size over the window, sent and received together.
fn both_ways(sizes: &Change<'_, PacketSize>) -> Option<Histogram> {
    let ways = [sizes.histogram(|s| &s.sent), sizes.histogram(|s| &s.received)];
    ways.into_iter().flatten().reduce(|a, b| a.merged(&b))
}

/// Returns every interface of every visible namespace.
pub fn interfaces(window: &Window, threads: &[TaskUse]) -> Vec<Entity> {
    let work = PacketWork::from_window(window, threads);
    let sizes = window.changes::<PacketSize>();
    let links = window.newest::<Link>();
    let qdiscs = window.changes::<Qdisc>();
    let mut counted = nic::by_interface(window);
    let hypervisor = window.the::<MachineInfo>().and_then(|machine| machine.virtualization.get());
    let is_virtual = matches!(hypervisor, Some("kvm" | "qemu"));
    window
        .changes::<Interface>()
        .iter()
        .map(|change| {
            let key = change.key();
            let on_it = |q: &&Change<'_, Qdisc>| q.key().ns == key.ns && q.last().interface.get() == Some(&*key.name);
            let (link, qdiscs) = (links.get(key).copied(), qdiscs.iter().filter(on_it).collect());
            let sizes = sizes.iter().find(|s| s.key() == key).and_then(both_ways);
            let nic = counted.remove(key).unwrap_or_default();
            let interface = InterfaceUse { is_virtual, work, change, link, qdiscs, sizes, nic };
            let subject = Subject { netns: netns(&key.ns), ..Subject::new("interface", key.name.to_string()) };
            Entity::from_subject(subject, &interface)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SECOND, window};
    use whyslow_model::catalogue::Cpu;
    use whyslow_model::key::NetKey;

    /// Returns ten seconds of 400,000 packets per second at `eth0` and 100,000 at `lo`, on two CPUs: one spends all of its time
    /// in the kernel, the other half of it.
    fn ten_seconds() -> Window {
        window([0, 10], |t, s| {
            for (name, packets) in [("eth0", 400_000), ("lo", 100_000)] {
                s.net.interface.push(Interface {
                    rx_packets: (t * packets).into(),
                    tx_packets: 0.into(),
                    rx_bytes: (t * packets * 100).into(),
                    tx_bytes: 0.into(),
                    ..Interface::new(NetKey { ns: "".into(), name: name.into() })
                });
            }
            s.net.packet_size.push(PacketSize {
                sent: Histogram::from_counts([(60, t * 30), (1400, t * 10)]),
                received: Histogram::from_counts([(50, t * 60)]),
                ..PacketSize::new(NetKey { ns: "".into(), name: "eth0".into() })
            });
            for (n, system, idle) in [(0, 2, 0), (1, 1, 1)] {
                s.processor.cpu.push(Cpu {
                    system: (t * SECOND * system / 2).into(),
                    idle: (t * SECOND * idle / 2).into(),
                    ..Cpu::new(n)
                });
            }
        })
    }

    #[test]
    fn a_packet_costs_the_kernels_time_by_their_number() {
        let work = PacketWork::from_window(&ten_seconds(), &[]);
        assert_eq!((work.packets, work.kernel, work.fullest), (Some(500_000.0), Some(1.5), Some(1.0)));
        let interface = &interfaces(&ten_seconds(), &[])[0];
        let number = |name: &str| interface.number(name).unwrap();
        // 60 of 100 packets have 50 bytes.
        assert_eq!(number("iface.median_size"), 50.0);
        // 1.5 s of kernel time per second for 500,000 packets.
        assert_eq!(number("iface.packet_cost"), 3e-6);
        assert_eq!((number("iface.packet_share"), number("iface.packet_size")), (0.8, 100.0));
    }

    #[test]
    fn a_thread_can_fill_itself_with_kernel_time_on_several_processors() {
        let thread = TaskUse { system: Some(0.5), cpu: Some(1.0), ..TaskUse::default() };
        assert_eq!(PacketWork::from_window(&Window::default(), std::slice::from_ref(&thread)).fullest, Some(0.5));
        // Half of its CPU time is in the kernel, and so is half of the work that waits for a CPU.
        let crowded = TaskUse { run_delay: Some(0.5), ..thread };
        assert_eq!(PacketWork::from_window(&Window::default(), &[crowded]).fullest, Some(0.75));
    }
}
