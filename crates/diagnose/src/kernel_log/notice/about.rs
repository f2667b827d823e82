//! What a message is about: the thing it names, and what else it tells of it.

use crate::kernel_log::disk_of;
use crate::kernel_log::words::{after, between, is_number, number_after, says, until, word_after};
use whyslow_model::device::by_number;
use whyslow_model::diagnosis::Subject;

/// What a message is about.
#[derive(Clone, Debug)]
pub struct About {
    /// The thing.
    pub subject: Subject,
    /// What differs from line to line.
    pub detail: Option<String>,
    /// Other names of the thing.
    pub aliases: Vec<String>,
    /// How often it has happened in all, where the message itself counts.
    pub total: Option<f64>,
}

impl About {
    fn of(kind: &str, name: impl Into<String>) -> Self {
        Self { subject: Subject::new(kind, name.into()), detail: None, aliases: Vec::new(), total: None }
    }

    fn host() -> Self {
        Self { subject: Subject::host(), detail: None, aliases: Vec::new(), total: None }
    }

    fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }
}

/// The machine.
pub fn host(_: &str) -> Option<About> {
    Some(About::host())
}

/// A kernel setting that bounds a table.
macro_rules! limits {
    ($($function:ident $setting:literal)*) => { $(
        #[doc = concat!("The limit ", $setting, ".")]
        pub fn $function(_: &str) -> Option<About> {
            Some(About::of("limit", $setting))
        }
    )* };
}

limits! {
    neighbors "net.ipv4.neigh.default.gc_thresh3"
    routes "net.ipv4.route.max_size"
    tcp_memory "net.ipv4.tcp_mem"
    tcp_orphans "net.ipv4.tcp_max_orphans"
    open_files "fs.file-max"
}

/// `INFO: task jbd2/sda1-8:812 blocked for more than`: the machine, and which task; a journal's thread names its device.
pub fn task(text: &str) -> Option<About> {
    let (name, pid) = until(after(text, "task ")?, char::is_whitespace).rsplit_once(':')?;
    let device = name
        .split_once('/')
        .filter(|(thread, _)| says(thread, &["jbd2", "xfsaild", "xfs-"]))
        .map(|(_, device)| device.split('-').next().unwrap_or(device));
    let aliases = device.into_iter().flat_map(|d| [d.to_owned(), disk_of(d).to_owned()]).collect();
    Some(About { aliases, ..About::host().detail(format!("{name}[{pid}]")) })
}

/// `BUG: soft lockup - CPU#1 stuck for 22s! [kworker/1:2:1234]`: the machine, and which processor and task.
pub fn processor(text: &str) -> Option<About> {
    let processor = after(text, "CPU#").map(|rest| until(rest, |c| !c.is_ascii_digit()));
    let task = text.rsplit_once('[').and_then(|(_, rest)| rest.strip_suffix(']'));
    let detail = match (processor, task) {
        (Some(processor), Some(task)) => format!("processor {processor} in {task}"),
        (Some(processor), None) => format!("processor {processor}"),
        _ => until(after(text, "INFO: ").unwrap_or(text), |c| c == '{').trim().to_owned(),
    };
    Some(About::host().detail(detail))
}

/// `CPU3: Core temperature above threshold, cpu clock throttled (total events = 77)`
pub fn heat(text: &str) -> Option<About> {
    let about = About::host().detail(until(text, |c| c == ':'));
    Some(About { total: number_after::<u32>(text, "total events = ").map(f64::from), ..about })
}

/// The machine, and the message itself, which names what is wrong.
pub fn said(text: &str) -> Option<About> {
    Some(About::host().detail(until(text, |c| c == '{').trim()))
}

/// The memory module an EDAC driver names; it counts by itself.
pub fn module(text: &str) -> Option<About> {
    let label = after(text, "label \"").map(|rest| until(rest, |c| c == '"'));
    let label = label.or_else(|| word_after(text, " error on ")).or_else(|| word_after(text, " on "));
    let severity = if says(text, &[" UE ", "ncorrect"]) { "uncorrected" } else { "corrected" };
    let count = after(text, "EDAC MC").and_then(|rest| number_after::<u32>(rest, ": "));
    let about = About::of("device", label.unwrap_or("memory")).detail(severity);
    Some(About { total: count.map(f64::from), ..about })
}

/// `Possible SYN flooding on port 443.`, `... on port [::]:80.`
pub fn listener(text: &str) -> Option<About> {
    let port = word_after(text, "on port ")?;
    Some(About::of("socket", if is_number(port) { format!("*:{port}") } else { port.to_owned() }))
}

/// The interface of a driver's message.
pub fn interface(text: &str) -> Option<About> {
    if let Some(name) = word_after(text, "for interface ") {
        return Some(About::of("interface", name));
    }
    let mut names = text.split([' ', ':', ',', '(', ')']).filter(|word| is_interface(word));
    Some(About::of("interface", names.next()?))
}

/// Ethernet cards go by a few families of names (systemd.net-naming-scheme(7)).
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

/// The device of a file system's message: `(sda1)`, `(device sda1)`, `(device sd(8,3))`, `Filesystem sda1:`.
pub fn file_system(text: &str) -> Option<About> {
    let named = between(text, '(', ')').and_then(|inside| {
        let device = inside.strip_prefix("device ").unwrap_or(inside);
        match device.split_once('(').and_then(|(_, numbers)| numbers.split_once(',')) {
            Some((major, minor)) => by_number(major.parse().ok()?, minor.parse().ok()?),
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
    let about = match known {
        Some(name) => {
            let aliases = vec![disk_of(&name).to_owned()];
            About { aliases, ..About::of("device", name) }
        }
        None => About::host(),
    };
    Some(about.detail(until(text, |c| c == '(').trim()))
}

fn is_device(name: &str) -> bool {
    const FAMILIES: [&str; 14] =
        ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "dm-", "md", "drbd", "dasd", "loop", "nbd", "rbd", "bcache"];
    FAMILIES.iter().any(|family| name.strip_prefix(family).is_some_and(|rest| !rest.is_empty()))
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// `fork rejected by pids controller in /user.slice`
pub fn group(text: &str) -> Option<About> {
    Some(About::of("cgroup", after(text, "controller in ")?.trim()))
}

/// `nfs: server filer1 not responding, still trying`
pub fn server(text: &str) -> Option<About> {
    Some(About::of("mount", word_after(text, "server ")?))
}

/// `page allocation failure: order:4, mode:0x4020`
pub fn allocation(text: &str) -> Option<About> {
    let order = number_after::<u32>(text, "order:");
    Some(About::host().detail(order.map_or_else(|| text.trim().to_owned(), |order| format!("order {order}"))))
}

/// `device-mapper: thin: 253:4: ...`: the volume, by its number.
pub fn volume(text: &str) -> Option<About> {
    let number = text.split(": ").nth(2)?;
    let (_, minor) = number.split_once(':').filter(|(a, b)| is_number(a) && is_number(b))?;
    Some(About::of("device", format!("dm-{minor}")))
}

/// `device-mapper: multipath: 253:3: Failing path 8:32.`; `mpatha: sdc - tur checker reports path is down`;
/// `rport-1:0-2: blocked FC remote port time out`; `connection1:0: detected conn error (1020)`
pub fn path(text: &str) -> Option<About> {
    if let Some(about) = volume(text) {
        let numbers = word_after(text, " path ").and_then(|n| n.split_once(':'));
        let disk = numbers.and_then(|(major, minor)| by_number(major.parse().ok()?, minor.parse().ok()?));
        let detail = disk.clone().map(|disk| format!("path {disk}"));
        return Some(About { aliases: disk.into_iter().collect(), detail, ..about });
    }
    let (name, rest) = text.trim_start().split_once(": ")?;
    let disk = rest.split_once(" - ").map(|(disk, _)| disk.to_owned()).filter(|disk| is_device(disk));
    Some(About { aliases: disk.into_iter().collect(), ..About::of("device", name).detail(rest.trim()) })
}

/// `nvme 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, ...`
pub fn slot(text: &str) -> Option<About> {
    let (device, rest) = text.split_once(": PCIe Bus Error: ")?;
    let (driver, address) = device.rsplit_once(' ').unwrap_or(("", device));
    let kinds: Vec<&str> = rest.split(", ").take(2).collect();
    Some(About::of("device", address).detail(format!("{driver} {}", kinds.join(", ")).trim()))
}

/// `Disabling IRQ #16`
pub fn interrupt(text: &str) -> Option<About> {
    Some(About::of("irq", number_after::<u32>(text, "IRQ #")?.to_string()))
}
