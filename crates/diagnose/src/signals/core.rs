//! CPUs and interrupt lines.

use crate::signal::{Entity, mean, over, ratio, signals, sum};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::catalogue::{Cpu, Interface, Irq, IrqTime, Link, RunQueue, Softirq, SoftirqTime, Softnet};
use whyslow_model::cpu_list;
use whyslow_model::histogram::Histogram;
use whyslow_model::value::{Counter, Name};
use whyslow_model::window::{Change, Window};
use whyslow_quantities::interrupt::softnet;
use whyslow_quantities::{Quantity, cpu};

/// Inputs of a CPU's signals.
pub struct CoreUse<'w> {
    cpu: Option<Change<'w, Cpu>>,
    softnet: Option<Change<'w, Softnet>>,
    /// Run-queue latencies, nanoseconds.
    latency: Option<Histogram>,
    /// Packets that all CPUs processed.
    packets_of_all: Option<f64>,
    /// Number of those CPUs.
    packet_cpus: usize,
    /// Mean idle share of the other CPUs.
    others_idle: Option<f64>,
    /// Mean share of the other CPUs in interrupts and softirqs.
    others_interrupt: Option<f64>,
    /// Its busiest interrupt line, and interrupts per second.
    line: Option<(&'w str, f64)>,
    /// Devices behind that line.
    line_devices: Option<&'w str>,
    line_interface: Option<&'w str>,
    /// The network card that its work probably comes from: that of this line, or the one that receives nearly all packets.
    card: Option<&'w str>,
    /// Receive queues that the card uses, and has.
    card_queues: Option<(f64, f64)>,
    /// All other online CPUs.
    others: BTreeSet<u32>,
    /// Its most frequent softirq.
    vector: Option<(&'w str, f64)>,
    /// Share of the time in each softirq, if it was traced.
    vector_times: Vec<(&'w str, f64)>,
    /// Share of the time in the handlers of each interrupt line.
    line_times: Vec<(&'w str, f64)>,
}

impl CoreUse<'_> {
    fn part(&self, f: impl Fn(&Cpu) -> Counter) -> Option<f64> {
        ratio(self.cpu.as_ref()?.rate(f))
    }
    fn latency(&self, quantile: f64) -> Option<f64> {
        ratio(self.latency.as_ref()?.quantile(quantile))
    }
    fn interrupt(&self) -> Option<f64> {
        cpu::INTERRUPT_TIME.over(self.cpu.as_ref())
    }
    /// Returns the time that is charged to no mode. A kernel that samples by its tick has no tick while it idles, and charges
    /// interrupts that come then to no task, but does not count them as idle either (Documentation/admin-guide/cpu-load.rst;
    /// kernel/time/tick-sched.c: tick_nohz_irq_enter).
    fn uncharged(&self) -> Option<f64> {
        self.part(|c| c.idle)?;
        cpu::CHARGED_TIME.over(self.cpu.as_ref()).map(|charged| (1.0 - charged).max(0.0))
    }
    fn interrupt_most(&self) -> Option<f64> {
        sum([self.interrupt(), self.uncharged()]).map(|s| s.min(1.0))
    }
    fn kernel(&self) -> Option<f64> {
        sum([self.part(|c| c.system), self.interrupt_most()]).map(|s| s.min(1.0))
    }
    fn packets(&self) -> Option<f64> {
        self.softnet.as_ref()?.rate(|s| s.processed)
    }

    fn dropped(&self) -> Option<f64> {
        self.softnet.as_ref()?.grown(|s| s.dropped)
    }

    fn drop_share(&self) -> Option<f64> {
        let dropped = self.dropped()?;
        over(Some(dropped), Some(dropped + self.softnet.as_ref()?.grown(|s| s.processed)?))
    }
}

/// Returns the sum of the shares; `None` if nothing was timed.
fn total(times: &[(&str, f64)]) -> Option<f64> {
    times.iter().map(|(_, share)| *share).reduce(|a, b| a + b).map(|s| s.min(1.0))
}

/// Returns the name of the largest share.
fn largest<'w>(times: &[(&'w str, f64)]) -> Option<&'w str> {
    times.iter().filter(|(_, share)| *share > 0.0).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| *name)
}

signals! { c: CoreUse<'_>;
    quantities of c.cpu.as_ref() => cpu::BUSY, cpu::IDLE_TIME, cpu::INTERRUPT;
    quantities of c.softnet.as_ref() => softnet::DROPS, softnet::SQUEEZES;
    "core.others_idle" "ratio" "the same of the other CPUs, mean", "mean(Δ(idle + iowait) / Δt)", "/proc/stat" => c.others_idle;
    "core.others_interrupt" "ratio" "share in interrupts and softirqs of the other CPUs, mean", "mean((irq + softirq) / Δt)", "/proc/stat" => c.others_interrupt;
    "core.uncharged" "ratio" "share of the time accounted to no mode: interrupts that arrived while it was idle, where the kernel samples by its tick", "1 - Δ(all modes) / Δt", "/proc/stat (Documentation/admin-guide/cpu-load.rst)" => c.uncharged();
    "core.interrupt_most" "ratio" "share in interrupts and softirqs, including the time accounted to no mode", "Δ(irq + softirq) / Δt + uncharged", "/proc/stat", normal (below 0.5), baseline true => c.interrupt_most();
    "core.kernel" "ratio" "share in the kernel, interrupts included", "Δsystem / Δt + interrupt_most", "/proc/stat" => c.kernel();
    "core.packets" "1/s" "packets it received", "Δprocessed / Δt", "/proc/net/softnet_stat column 1", baseline true => c.packets();
    "core.packet_share" "ratio" "its share of the packets all CPUs received", "Δprocessed / ΣΔprocessed", "/proc/net/softnet_stat column 1" => over(c.packets(), c.packets_of_all);
    "core.packet_cpus" "count" "how many CPUs those are", "rows", "/proc/net/softnet_stat" => c.packets_of_all.map(|_| c.packet_cpus as f64);
    "core.steered" "1/s" "times another CPU handed it packets (RPS)", "Δreceived_rps / Δt", "/proc/net/softnet_stat column 10 (Documentation/networking/scaling.rst)", normal "0/s where no other CPU hands it packets" => c.softnet.as_ref().and_then(|s| s.rate(|s| s.received_rps));
    "core.dropped" "count" "the same, in the window", "Δdropped", "/proc/net/softnet_stat column 2", normal (near 0.0) => c.dropped();
    "core.drop_share" "ratio" "share of the packets meant for it that were dropped that way", "Δdropped / (Δprocessed + Δdropped)", "/proc/net/softnet_stat", normal (near 0.0001 as "0, or a few in a burst") => c.drop_share();
    "core.softirq_time" "ratio" "share of its time in softirqs, timed one by one", "ΣΔtime / Δt", "BPF: softirq_entry, softirq_exit" => total(&c.vector_times);
    "core.costliest_vector" "text" "the softirq that takes most of that time", "max Δtime", "BPF: softirq_entry, softirq_exit" => largest(&c.vector_times);
    "core.handler_time" "ratio" "share of its time in interrupt handlers, timed one by one", "ΣΔtime / Δt", "BPF: irq_handler_entry, irq_handler_exit", normal (near 0.02) => total(&c.line_times);
    "core.costliest_line" "text" "the interrupt line whose handler takes most of that time", "max Δtime", "BPF: irq_handler_entry, irq_handler_exit", normal "the line whose handler takes it" => largest(&c.line_times);
    "core.run_queue_median" "s" "time from becoming runnable to running, as the median", "50th percentile of the histogram", "BPF: sched_waking, sched_switch" => c.latency(0.5);
    "core.run_queue_p99" "s" "the same of the unluckiest hundredth", "99th percentile of the histogram", "BPF: sched_waking, sched_switch" => c.latency(0.99);
    "core.line" "text" "its busiest interrupt line, timers excluded", "max Δcount", "/proc/interrupts", normal "a line with an affinity to several CPUs" => c.line.map(|(name, _)| name);
    "core.line_devices" "text" "the devices behind that line", "as the kernel gives them", "/proc/interrupts", normal "the devices behind it" => c.line_devices;
    "core.line_interface" "text" "the network interface among them", "by its name", "/proc/interrupts" => c.line_interface;
    "core.card" "text" "the network card that its work is probably of", "that of its busiest line, or the one that receives over 90 % of all packets", "/proc/interrupts, /proc/net/dev" => c.card;
    "core.card_queues" "count" "receive queues that the card uses", "ethtool -l: current", "ethtool netlink: channels" => c.card_queues.map(|(used, _)| used);
    "core.card_queues_max" "count" "receive queues that it has", "ethtool -l: maximums", "ethtool netlink: channels" => c.card_queues.map(|(_, most)| most);
    "core.other_cpus" "text" "the other CPUs", "all that are online but this one", "/proc/stat" => (!c.others.is_empty()).then(|| cpu_list::format(&c.others)).as_deref();
    "core.other_cpus_mask" "text" "the same as a mask", "in groups of 32 bits, as the kernel prints masks (lib/vsprintf.c: bitmap_string)", "/proc/stat" => (!c.others.is_empty()).then(|| cpu_list::mask(&c.others)).as_deref();
    "core.line_rate" "1/s" "interrupts of that line", "Δcount / Δt", "/proc/interrupts" => c.line.map(|(_, rate)| rate);
    "core.vector" "text" "its most frequent softirq, timers excluded", "max Δcount", "/proc/softirqs" => c.vector.map(|(name, _)| name);
    "core.vector_rate" "1/s" "runs of that softirq", "Δcount / Δt", "/proc/softirqs", normal "a few hundred per second" => c.vector.map(|(_, rate)| rate);
}

/// Returns the interface that receives nearly all packets.
fn main_receiver(window: &Window) -> Option<&str> {
    const NEARLY_ALL: f64 = 0.9;
    let changes = window.changes::<Interface>();
    let own = changes.iter().filter(|change| change.key().ns.is_empty() && &*change.key().name != "lo");
    let rates: Vec<_> = own.filter_map(|c| Some((&*c.last().interface.name, c.rate(|i| i.rx_packets)?))).collect();
    let all: f64 = rates.iter().map(|(_, rate)| rate).sum();
    rates.into_iter().find(|(_, rate)| *rate > 0.0 && *rate > NEARLY_ALL * all).map(|(name, _)| name)
}

/// Interrupts and softirqs of the clock and the scheduler, which every busy CPU has.
const CLOCKWORK: [&str; 8] = ["LOC", "RES", "TLB", "IWI", "TIMER", "HRTIMER", "SCHED", "RCU"];

/// Returns the most frequent interrupt or softirq of one CPU, except those of the clock and the scheduler.
fn most<'w>(rates: impl Iterator<Item = (&'w str, Option<f64>)>) -> Option<(&'w str, f64)> {
    let known = rates.filter_map(|(name, rate)| Some((name, rate.filter(|r| *r > 0.0)?)));
    known.filter(|(name, _)| !CLOCKWORK.contains(name)).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Returns the known times as shares of the time.
fn shares<'w>(rates: impl Iterator<Item = (&'w str, Option<f64>)>) -> Vec<(&'w str, f64)> {
    rates.filter_map(|(name, rate)| Some((name, ratio(rate)?))).collect()
}

/// Returns each CPU's time in the kernel, interrupts included, as a share of the time.
pub(super) fn kernel_shares(window: &Window) -> Vec<f64> {
    window.changes::<Cpu>().into_iter().filter_map(|cpu| CoreUse::alone(Some(cpu)).kernel()).collect()
}

impl<'w> CoreUse<'w> {
    /// Creates the inputs from the CPU's own time only.
    fn alone(cpu: Option<Change<'w, Cpu>>) -> Self {
        Self {
            cpu,
            softnet: None,
            latency: None,
            packets_of_all: None,
            packet_cpus: 0,
            others_idle: None,
            others_interrupt: None,
            line: None,
            line_devices: None,
            line_interface: None,
            card: None,
            card_queues: None,
            others: BTreeSet::new(),
            vector: None,
            vector_times: vec![],
            line_times: vec![],
        }
    }
}

/// Returns every CPU.
pub fn entities(window: &Window) -> Vec<Entity> {
    let mut cpus: BTreeMap<u32, Change<'_, Cpu>> =
        window.changes::<Cpu>().into_iter().map(|cpu| (*cpu.key(), cpu)).collect();
    let mut softnet: BTreeMap<u32, Change<'_, Softnet>> =
        window.changes::<Softnet>().into_iter().map(|softnet| (*softnet.key(), softnet)).collect();
    let numbers: BTreeSet<u32> = cpus.keys().chain(softnet.keys()).copied().collect();
    let (line_times, vector_times) = (window.changes::<IrqTime>(), window.changes::<SoftirqTime>());
    let (lines, vectors) = (window.changes::<Irq>(), window.changes::<Softirq>());
    let links = window.changes::<Link>();
    // Not every row of a capture has them.
    let queues_of = |interface: &str| {
        let link = links.iter().find(|link| link.key().ns.is_empty() && &*link.key().name == interface)?;
        link.rows().filter_map(|row| row.channels.get().zip(row.channels_max.get())).last()
    };
    let receiver = main_receiver(window);
    let latencies = window.changes::<RunQueue>();
    let packets_of_all = softnet.values().filter_map(|s| s.rate(|s| s.processed)).reduce(|a, b| a + b);
    let packet_cpus = softnet.len();
    let shares_of = |share: &Quantity<Cpu>| -> Vec<(u32, f64)> {
        cpus.iter().filter_map(|(number, cpu)| Some((*number, share.over(cpu)?))).collect()
    };
    let (idle, interrupt) = (shares_of(&cpu::IDLE_TIME), shares_of(&cpu::INTERRUPT_TIME));
    let use_of = |number: u32| {
        let of_others =
            |all: &[(u32, f64)]| mean(all.iter().filter(|(other, _)| *other != number).map(|(_, share)| *share));
        let own_lines = lines.iter().filter(|l| l.key().cpu == number);
        let line = most(own_lines.clone().map(|l| (&*l.key().name, l.rate(|l| l.count))));
        let devices_of = |name: &str| own_lines.clone().find(|l| &*l.key().name == name)?.last().device.get();
        let own_vectors = vectors.iter().filter(|v| v.key().cpu == number);
        let of_vector = |v: &&Change<'_, SoftirqTime>| v.key().cpu == number;
        let of_line = |l: &&Change<'_, IrqTime>| l.key().cpu == number;
        let latency = latencies.iter().find(|l| *l.key() == number);
        let line_devices = line.and_then(|(name, _)| devices_of(name));
        let line_interface = line_devices.and_then(|devices| interface_among(window, devices));
        let card = line_interface.or(receiver);
        let core = CoreUse {
            latency: latency.and_then(|l| l.histogram(|l| &l.latency)),
            softnet: softnet.remove(&number),
            packets_of_all,
            packet_cpus,
            others_idle: of_others(&idle),
            others_interrupt: of_others(&interrupt),
            line,
            line_devices,
            line_interface,
            card,
            card_queues: card.and_then(queues_of),
            others: idle.iter().map(|(cpu, _)| *cpu).filter(|cpu| *cpu != number).collect(),
            vector: most(own_vectors.map(|v| (&*v.key().name, v.rate(|v| v.count)))),
            vector_times: shares(vector_times.iter().filter(of_vector).map(|v| (&*v.key().name, v.rate(|v| v.time)))),
            line_times: shares(line_times.iter().filter(of_line).map(|l| (&*l.key().name, l.rate(|l| l.time)))),
            ..CoreUse::alone(cpus.remove(&number))
        };
        Entity::from_subject(Subject::new("cpu", format!("cpu{number}")), &core)
    };
    numbers.into_iter().map(use_of).collect()
}

/// The line with the most interrupts, except the timers'.
#[derive(Clone, Debug, PartialEq)]
pub struct BusiestLine {
    /// The line as /proc/interrupts names it.
    pub line: Name,
    /// Interrupts per second, over all CPUs; `None` where the counts were read once, so that they are since boot.
    pub rate: Option<f64>,
    /// Devices behind it.
    pub devices: Option<String>,
}

/// Interrupts of a network interface since boot, where they were read once.
#[derive(Clone, Debug, PartialEq)]
pub struct NicInterrupts {
    /// Name of the interface.
    pub interface: String,
    /// Interrupts on all CPUs.
    pub count: f64,
    /// The CPU with the most of them, and its count.
    pub cpu: u32,
    pub most: f64,
    /// Number of CPUs that have interrupts of any kind.
    pub cpus: usize,
}

impl NicInterrupts {
    /// Returns the counts of the interface with the most interrupts; `None` if rates are known.
    pub fn from_window(window: &Window) -> Option<Self> {
        let changes = window.changes::<Irq>();
        if changes.iter().any(|change| change.rate(|i| i.count).is_some()) {
            return None;
        }
        let mut cpus = BTreeSet::new();
        let mut counts: BTreeMap<&str, BTreeMap<u32, f64>> = BTreeMap::new();
        for change in &changes {
            let (cpu, row) = (change.key().cpu, change.last());
            cpus.insert(cpu);
            let interface = row.device.get().and_then(|devices| interface_among(window, devices));
            if let Some((interface, count)) = interface.zip(row.count.get()) {
                *counts.entry(interface).or_default().entry(cpu).or_default() += count as f64;
            }
        }
        let of_interface = |(interface, by_cpu): (&str, BTreeMap<u32, f64>)| {
            let count: f64 = by_cpu.values().sum();
            let (cpu, most) = by_cpu.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            Some(Self {
                interface: interface.to_owned(),
                count,
                cpu,
                most: over(Some(most), Some(count))?,
                cpus: cpus.len(),
            })
        };
        counts.into_iter().filter_map(of_interface).max_by(|a, b| a.count.total_cmp(&b.count))
    }
}

/// Finds the busiest line: by its rate, or, where no rate of any line is known, by its count since boot.
pub fn busiest_line(window: &Window) -> Option<BusiestLine> {
    let mut rates: BTreeMap<&Name, f64> = BTreeMap::new();
    let mut counts: BTreeMap<&Name, f64> = BTreeMap::new();
    let mut devices: BTreeMap<&Name, &str> = BTreeMap::new();
    let changes = window.changes::<Irq>();
    for change in &changes {
        let name = &change.key().name;
        if let Some(rate) = change.rate(|i| i.count) {
            *rates.entry(name).or_default() += rate;
        }
        if let Some(count) = change.last().count.get() {
            *counts.entry(name).or_default() += count as f64;
        }
        if let Some(device) = change.last().device.get() {
            devices.insert(name, device);
        }
    }
    let timer =
        |name: &Name| &**name == "0" || &**name == "LOC" || devices.get(name).is_some_and(|d| d.contains("timer"));
    let most = |lines: &BTreeMap<&Name, f64>| {
        let lines = lines.iter().filter(|(name, n)| !timer(name) && **n > 0.0).map(|(name, n)| ((*name).clone(), *n));
        lines.max_by(|a, b| a.1.total_cmp(&b.1))
    };
    let by_rate = most(&rates).map(|(line, rate)| (line, Some(rate)));
    let (line, rate) = by_rate.or_else(|| most(&counts).filter(|_| rates.is_empty()).map(|(line, _)| (line, None)))?;
    let devices = devices.get(&line).map(|d| (*d).to_owned());
    Some(BusiestLine { line, rate, devices })
}

/// Returns the network interface among the devices behind an interrupt line. Drivers name an interface's handlers after it,
/// followed by a queue: `eth2`, `ens3-TxRx-0`.
pub fn interface_among<'d>(window: &Window, devices: &'d str) -> Option<&'d str> {
    let interfaces = window.newest::<Interface>();
    let links = window.newest::<Link>();
    let is_known =
        |name: &str| interfaces.keys().chain(links.keys()).any(|key| key.ns.is_empty() && &*key.name == name);
    let names = devices.split([',', ' ']).filter(|name| !name.is_empty());
    let names = names.flat_map(|name| [Some(name), name.split_once('-').map(|(name, _)| name)]).flatten();
    // A capture may show interrupts without interfaces.
    names.into_iter().find(|name| is_known(name) || is_named_by_convention(name))
}

/// Returns true if the kernel or udev (systemd.net-naming-scheme(7)) gives network cards such names: `eth0`, `em1`, `ib0`,
/// `p3p1`, `ens3`, `enp0s25f1`, `wlan0`.
fn is_named_by_convention(name: &str) -> bool {
    let is_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
    let numbered = |prefix: &str| name.strip_prefix(prefix).is_some_and(is_number);
    let by_place = |prefix: &str| {
        let rest = name.strip_prefix(prefix);
        rest.is_some_and(|rest| {
            rest.starts_with(|c: char| c.is_ascii_digit()) && rest.bytes().all(|b| b.is_ascii_alphanumeric())
        })
    };
    ["eth", "em", "ib", "wlan"].into_iter().any(numbered)
        || ["eno", "ens", "enp", "enP", "wlp", "ibp"].into_iter().any(by_place)
        || name.strip_prefix("enx").is_some_and(|mac| mac.len() == 12 && mac.bytes().all(|b| b.is_ascii_hexdigit()))
        || name
            .strip_prefix('p')
            .and_then(|rest| rest.split_once('p'))
            .is_some_and(|(a, b)| is_number(a) && is_number(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::testing::{SECOND, window};
    use whyslow_documents::diagnosis::Reading;
    use whyslow_model::key::{NetKey, PerCpu};

    #[test]
    fn an_interface_is_found_among_the_devices_behind_a_line() {
        let empty = window([0, 1], |_, _| {});
        let among = |devices| interface_among(&empty, devices);
        assert_eq!(among("acpi, eth2"), Some("eth2"));
        assert_eq!(among("ens3-TxRx-0"), Some("ens3"));
        assert_eq!(among("p3p1"), Some("p3p1"));
        assert_eq!(among("ata_piix, ensoniq, ehci_hcd:usb1, ethernet"), None);
        let known = window([0, 1], |_, s| s.net.link.push(Link::new(NetKey { ns: "".into(), name: "lan".into() })));
        assert_eq!(interface_among(&known, "i8042 lan-rx-0"), Some("lan"));
    }

    #[test]
    fn interrupts_of_all_queues_of_a_card_are_one_sum() {
        let window = window([5], |_, s| {
            let mut line = |name: &str, cpu, count: u64, device: &str| {
                let line = PerCpu { name: name.into(), cpu };
                s.processor.irq.push(Irq { count: count.into(), device: device.into(), ..Irq::new(line) });
            };
            line("24", 0, 900, "eth0-TxRx-0");
            line("25", 0, 50, "eth0-TxRx-1");
            line("25", 1, 50, "eth0-TxRx-1");
            line("14", 1, 5000, "ata_piix");
            line("LOC", 2, 1, "Local timer interrupts");
        });
        let nic = NicInterrupts::from_window(&window).unwrap();
        assert_eq!((nic.interface.as_str(), nic.count, nic.cpu, nic.most, nic.cpus), ("eth0", 1000.0, 0, 0.95, 3));
    }

    /// A card that already waits long enough keeps its setting: a value that only raises needs the present one.
    #[test]
    fn the_coalescing_of_a_card_is_a_setting_that_is_known() {
        let card = |usecs: f64| {
            let window = window([0, 1], |_, s| {
                let key = NetKey { ns: "".into(), name: "lan".into() };
                s.net.link.push(Link { coalesce_rx: (usecs * 1e3).into(), ..Link::new(key) });
            });
            crate::facts::Facts::from_window(&window).setting("nic.coalesce.rx_usecs@lan").map(str::to_owned)
        };
        assert_eq!(card(200.0).as_deref(), Some("200"));
    }

    /// Returns two CPUs over ten seconds: the first idles 8 s; the second idles 1 s, is charged 4 s of softirqs and 1 s of
    /// kernel time, and has 4 s that are charged to no mode.
    fn ten_seconds() -> Window {
        window([0, 10], |t, s| {
            let tenth = t * SECOND / 10;
            let cpu = |n, idle: u64, user: u64, system: u64, softirq: u64| Cpu {
                user: (user * tenth).into(),
                system: (system * tenth).into(),
                idle: (idle * tenth).into(),
                iowait: 0.into(),
                irq: 0.into(),
                softirq: (softirq * tenth).into(),
                ..Cpu::new(n)
            };
            s.processor.cpu = vec![cpu(0, 8, 2, 0, 0), cpu(1, 1, 0, 1, 4)];
            let softnet = |n, packets: u64| Softnet { processed: (t * packets).into(), ..Softnet::new(n) };
            s.processor.softnet = vec![softnet(0, 1_000), softnet(1, 3_000)];
            for (name, rate) in [("LOC", 1_000u64), ("38", 500), ("CAL", 900)] {
                let key = PerCpu { name: name.into(), cpu: 1 };
                let device = if name == "CAL" { "Function call interrupts".into() } else { Default::default() };
                s.processor.irq.push(Irq { count: (t * rate).into(), device, ..Irq::new(key) });
            }
            for (name, share) in [("NET_RX", 7), ("TIMER", 1)] {
                let key = PerCpu { name: name.into(), cpu: 1 };
                s.processor.softirq_time.push(SoftirqTime { time: (tenth * share).into(), ..SoftirqTime::new(key) });
            }
        })
    }

    fn reading(core: usize, name: &str) -> Option<Reading> {
        entities(&ten_seconds())[core].reading(name).cloned()
    }

    fn number(core: usize, name: &str) -> f64 {
        (entities(&ten_seconds())[core].number(name).unwrap() * 1e6).round() / 1e6
    }

    #[test]
    fn time_that_no_mode_is_charged_with_went_into_interrupts_at_most() {
        assert_eq!((number(0, "core.uncharged"), number(1, "core.uncharged")), (0.0, 0.4));
        assert_eq!((number(1, "core.interrupt_most"), number(1, "core.kernel")), (0.8, 0.9));
        // 4 s of the 6 s that are accounted for.
        assert_eq!(number(1, "core.interrupt"), 0.666667);
        let shares = kernel_shares(&ten_seconds());
        assert!((shares[0], (shares[1] * 10.0).round()) == (0.0, 9.0), "{shares:?}");
    }

    #[test]
    fn what_the_other_cpus_did_is_known() {
        assert_eq!((number(0, "core.others_idle"), number(1, "core.others_idle")), (0.1, 0.8));
        assert_eq!(number(1, "core.packet_share"), 0.75);
    }

    #[test]
    fn what_was_timed_is_a_share_of_the_time_and_what_was_not_is_unknown() {
        assert_eq!(number(1, "core.softirq_time"), 0.8);
        assert_eq!(reading(1, "core.costliest_vector"), Some(Reading::Text("NET_RX".into())));
        assert_eq!((reading(0, "core.softirq_time"), reading(1, "core.handler_time")), (None, None));
    }

    #[test]
    fn the_busiest_line_is_not_the_clock() {
        assert_eq!(reading(1, "core.line"), Some(Reading::Text("CAL".into())));
        assert_eq!(number(1, "core.line_rate"), 900.0);
        assert_eq!(reading(1, "core.line_devices"), Some(Reading::Text("Function call interrupts".into())));
        assert_eq!(reading(0, "core.line"), None);
    }
}
