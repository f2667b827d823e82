//! Finds the subject of a message.

use crate::kernel_log::disk_of;
use crate::kernel_log::words::{after, between, is_number, number_after, says, until, word_after};
use whyslow_documents::diagnosis::Subject;
use whyslow_model::kernel_log::LogSubject;
use whyslow_model::topology::device_by_number;

#[derive(Clone, Debug)]
pub struct MessageSubject {
    pub subject: Subject,
    /// Detail that differs between the messages about it.
    pub detail: Option<String>,
    /// Other names of the subject.
    pub aliases: Vec<String>,
    /// Total number of occurrences, if the message contains a count.
    pub total: Option<f64>,
}

impl MessageSubject {
    fn new(kind: &str, name: impl Into<String>) -> Self {
        Self { subject: Subject::new(kind, name.into()), detail: None, aliases: Vec::new(), total: None }
    }

    fn host() -> Self {
        Self { subject: Subject::host(), detail: None, aliases: Vec::new(), total: None }
    }

    fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }
}

/// Subject for an unnamed snapshot of the device mapper.
pub const SNAPSHOT: &str = "snapshot";

/// Finds the subject of a message by the rule of its pattern.
pub fn subject_of(subject: LogSubject, text: &str) -> Option<MessageSubject> {
    match subject {
        LogSubject::Host => Some(MessageSubject::host()),
        LogSubject::Program(name) => Some(MessageSubject::host().detail(name)),
        LogSubject::TemporaryFile => {
            const LARGE: u64 = 50_000_000;
            number_after::<u64>(text, "size ").filter(|size| *size > LARGE).map(|_| MessageSubject::host())
        }
        LogSubject::Limit(setting) => Some(MessageSubject::new("limit", setting)),
        LogSubject::Task => task(text),
        LogSubject::Cpu => Some(cpu(text)),
        LogSubject::Message => Some(message(text)),
        LogSubject::MemoryModule => Some(memory_module(text)),
        LogSubject::Temperature => Some(temperature(text)),
        LogSubject::ListeningSocket => listening_socket(text),
        LogSubject::Interface => interface(text),
        LogSubject::FileSystem => Some(file_system(text)),
        LogSubject::Cgroup => Some(MessageSubject::new("cgroup", after(text, "controller in ")?.trim())),
        LogSubject::NfsServer => Some(MessageSubject::new("mount", word_after(text, "server ")?)),
        LogSubject::PageAllocation => Some(page_allocation(text)),
        LogSubject::Volume => volume(text),
        LogSubject::Snapshot => Some(MessageSubject::new("volume", SNAPSHOT)),
        LogSubject::StoragePath => storage_path(text),
        LogSubject::CephOsd => {
            let number = number_after::<u32>(text, "libceph: osd")?;
            Some(MessageSubject::new("array", "ceph").detail(format!("osd.{number}")))
        }
        LogSubject::PcieDevice => pcie_device(text),
        LogSubject::Crash => Some(MessageSubject::host()),
        LogSubject::Interrupt => Some(MessageSubject::new("irq", number_after::<u32>(text, "IRQ #")?.to_string())),
    }
}

/// Parses `INFO: task jbd2/sda1-8:812 blocked for more than`: the machine, and which task; a journal's thread names its device.
fn task(text: &str) -> Option<MessageSubject> {
    let (name, pid) = until(after(text, "task ")?, char::is_whitespace).rsplit_once(':')?;
    let aliases = devices_of_thread(name);
    Some(MessageSubject { aliases, ..MessageSubject::host().detail(format!("{name}[{pid}]")) })
}

/// Returns the device whose journal a kernel thread writes, and its disk: `sda1` and `sda` for `jbd2/sda1-8`.
pub fn devices_of_thread(name: &str) -> Vec<String> {
    let device = name
        .split_once('/')
        .filter(|(thread, _)| says(thread, &["jbd2", "xfsaild", "xfs-"]))
        .map(|(_, device)| device.split(['-', '[']).next().unwrap_or(device));
    device.into_iter().flat_map(|d| [d.to_owned(), disk_of(d).to_owned()]).collect()
}

/// Parses `BUG: soft lockup - CPU#1 stuck for 22s! [kworker/1:2:1234]`: the machine, and which CPU and task.
fn cpu(text: &str) -> MessageSubject {
    let cpu = after(text, "CPU#").map(|rest| until(rest, |c| !c.is_ascii_digit()));
    let task = text.rsplit_once('[').and_then(|(_, rest)| rest.strip_suffix(']'));
    let detail = match (cpu, task) {
        (Some(cpu), Some(task)) => format!("CPU {cpu} in {task}"),
        (Some(cpu), None) => format!("CPU {cpu}"),
        _ => until(after(text, "INFO: ").unwrap_or(text), |c| c == '{').trim().to_owned(),
    };
    MessageSubject::host().detail(detail)
}

/// Parses `CPU3: Core temperature above threshold, cpu clock throttled (total events = 77)`.
fn temperature(text: &str) -> MessageSubject {
    let subject = MessageSubject::host().detail(until(text, |c| c == ':'));
    MessageSubject { total: number_after::<u32>(text, "total events = ").map(f64::from), ..subject }
}

/// Returns the machine, with the message itself as the detail.
fn message(text: &str) -> MessageSubject {
    MessageSubject::host().detail(until(text, |c| c == '{').trim())
}

/// Finds the memory module that an EDAC driver names, with the driver's own count, or that the board names: `| Memory |
/// Correctable ECC (@DIMMG1(CPU2)) |`.
fn memory_module(text: &str) -> MessageSubject {
    let label = after(text, "label \"").map(|rest| until(rest, |c| c == '"'));
    let label = label.or_else(|| word_after(text, " error on ")).or_else(|| word_after(text, " on "));
    let label = label.or_else(|| after(text, "ECC (@")?.split_once(") |").map(|(label, _)| label));
    let severity = if says(text, &[" UE ", "ncorrect"]) { "uncorrected" } else { "corrected" };
    let count = after(text, "EDAC MC").and_then(|rest| number_after::<u32>(rest, ": "));
    let subject = MessageSubject::new("device", label.unwrap_or("memory")).detail(severity);
    MessageSubject { total: count.map(f64::from), ..subject }
}

/// Parses `Possible SYN flooding on port 443.`, `... on port [::]:80.`
fn listening_socket(text: &str) -> Option<MessageSubject> {
    let port = word_after(text, "on port ")?;
    Some(MessageSubject::new("socket", if is_number(port) { format!("*:{port}") } else { port.to_owned() }))
}

/// Finds the interface of a driver's message.
fn interface(text: &str) -> Option<MessageSubject> {
    let named = ["for interface ", "NETDEV WATCHDOG: "].iter().find_map(|words| word_after(text, words));
    // Since 6.2 the interface stands before: `enp3s0: NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5376 ms`.
    if let Some(name) = named.filter(|name| !["(", "CPU"].iter().any(|other| name.starts_with(other))) {
        return Some(MessageSubject::new("interface", name));
    }
    let mut names = text.split([' ', ':', ',', '(', ')']).filter(|word| is_interface(word));
    Some(MessageSubject::new("interface", names.next()?))
}

/// Returns true if the word belongs to one of the few families of network interface names (systemd.net-naming-scheme(7)).
fn is_interface(word: &str) -> bool {
    const FAMILIES: [&str; 15] =
        ["eth", "eno", "ens", "enp", "enP", "enx", "em", "wlan", "wlp", "ib", "bond", "team", "usb", "lan", "wan"];
    let numbered =
        |family: &&str| word.strip_prefix(*family).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let port = || {
        let (slot, port) = word.strip_prefix('p')?.split_once('p')?;
        (is_number(slot) && port.starts_with(|c: char| c.is_ascii_digit())).then_some(())
    };
    FAMILIES.iter().any(numbered) || port().is_some()
}

/// Finds the device of a file system's message: `(sda1)`, `(device sda1)`, `(device sd(8,3))`, `Filesystem sda1:`.
fn file_system(text: &str) -> MessageSubject {
    let named = between(text, '(', ')').and_then(|inside| {
        let device = inside.strip_prefix("device ").unwrap_or(inside);
        match device.split_once('(').and_then(|(_, numbers)| numbers.split_once(',')) {
            Some((major, minor)) => device_by_number(major.parse().ok()?, minor.parse().ok()?),
            None => Some(until(device, char::is_whitespace).trim_end_matches(':').to_owned()),
        }
    });
    let known = named.filter(|name| is_device(name));
    let known = known.or_else(|| {
        ["ilesystem \"", "ilesystem ", " device ", " on "].iter().find_map(|word| {
            let name = after(text, word)?.split([' ', '"', ':', '-', '.', ',']).next()?;
            Some(name.to_owned()).filter(|name| is_device(name))
        })
    });
    let subject = match known {
        Some(name) => {
            let aliases = vec![disk_of(&name).to_owned()];
            MessageSubject { aliases, ..MessageSubject::new("device", name) }
        }
        None => MessageSubject::host(),
    };
    subject.detail(until(text, |c| c == '(').trim())
}

fn is_device(name: &str) -> bool {
    const FAMILIES: [&str; 14] =
        ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "dm-", "md", "drbd", "dasd", "loop", "nbd", "rbd", "bcache"];
    FAMILIES.iter().any(|family| name.strip_prefix(family).is_some_and(|rest| !rest.is_empty()))
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// Parses `page allocation failure: order:4, mode:0x4020`.
fn page_allocation(text: &str) -> MessageSubject {
    let order = number_after::<u32>(text, "order:");
    MessageSubject::host().detail(order.map_or_else(|| text.trim().to_owned(), |order| format!("order {order}")))
}

/// Parses `device-mapper: thin: 253:4: ...`: the volume, by its number.
fn volume(text: &str) -> Option<MessageSubject> {
    let number = text.split(": ").nth(2)?;
    let (_, minor) = number.split_once(':').filter(|(a, b)| is_number(a) && is_number(b))?;
    Some(MessageSubject::new("device", format!("dm-{minor}")))
}

/// Parses `device-mapper: multipath: 253:3: Failing path 8:32.`, in older kernels without the first number; `mpatha: sdc - tur
/// checker reports path is down`; `rport-1:0-2: blocked FC remote port time out`; `connection1:0: detected conn error (1020)`;
/// `nvme nvme1: starting error recovery`.
fn storage_path(text: &str) -> Option<MessageSubject> {
    let numbers = word_after(text, " path ").and_then(|n| n.split_once(':'));
    let disk = numbers.and_then(|(major, minor)| device_by_number(major.parse().ok()?, minor.parse().ok()?));
    if let Some(subject) = volume(text) {
        let detail = disk.clone().map(|disk| format!("path {disk}"));
        return Some(MessageSubject { aliases: disk.into_iter().collect(), detail, ..subject });
    }
    if let Some(disk) = disk {
        return Some(MessageSubject::new("device", disk));
    }
    let (name, rest) = text.trim_start().split_once(": ")?;
    let name = name.strip_prefix("nvme ").unwrap_or(name);
    let disk = rest.split_once(" - ").map(|(disk, _)| disk.to_owned()).filter(|disk| is_device(disk));
    Some(MessageSubject {
        aliases: disk.into_iter().collect(),
        ..MessageSubject::new("device", name).detail(rest.trim())
    })
}

/// Parses `nvme 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, ...`.
fn pcie_device(text: &str) -> Option<MessageSubject> {
    let (device, rest) = text.split_once(": PCIe Bus Error: ")?;
    let (driver, address) = device.rsplit_once(' ').unwrap_or(("", device));
    let kinds: Vec<&str> = rest.split(", ").take(2).collect();
    Some(MessageSubject::new("device", address).detail(format!("{driver} {}", kinds.join(", ")).trim()))
}
