//! Configuration of a guest, from the command line of QEMU (qemu(1)), its monitor and libvirt.

mod block;
mod domain;
mod libvirt;
mod limits;
pub mod monitor;
mod network;
mod options;

pub use domain::{LibvirtDomain, libvirt_domain};
pub use libvirt::{LibvirtGuest, libvirt_guest};
pub use limits::IoLimits;

use options::{QemuOptions, size};
use whyslow_model::catalogue::{Guest, GuestDisk, GuestNic};
use whyslow_model::key::TaskKey;
use whyslow_model::value::State;

/// A guest, its disks and its network cards.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GuestConfig {
    /// The guest.
    pub guest: Guest,
    /// Its disks.
    pub disks: Vec<GuestDisk>,
    /// Its network cards.
    pub cards: Vec<NetworkCard>,
    /// Sockets of its monitors that have a path and speak QMP.
    pub monitors: Vec<String>,
    /// Name of its balloon (`id=`).
    pub balloon: Option<String>,
}

/// A network card of a guest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkCard {
    /// Its settings; the interface of the host has to be looked up.
    pub row: GuestNic,
    /// Name of that interface; `None` if the card has no tap.
    pub tap: Option<TapName>,
}

/// Tap interface of a network card, as named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapName {
    /// Interface name.
    Given(String),
    /// File descriptor of the process.
    OfDescriptor(u32),
    /// Not named: the kernel or a helper chose the name.
    Unknown,
}

/// Returns whether a process of this name can be QEMU: `qemu-system-x86`, `qemu-kvm`, Proxmox' `kvm`, `qemu:NAME` with
/// `-name process=`.
pub fn may_be_qemu(command: &str) -> bool {
    command.starts_with("qemu") || command == "kvm"
}

/// The relevant options of a command line.
#[derive(Default)]
struct CommandLine {
    program: String,
    name: QemuOptions,
    uuid: Option<String>,
    machine: QemuOptions,
    accel: Option<String>,
    cpu: QemuOptions,
    smp: QemuOptions,
    memory: QemuOptions,
    mem_path: Option<String>,
    devices: Vec<QemuOptions>,
    drives: Vec<QemuOptions>,
    nodes: Vec<QemuOptions>,
    netdevs: Vec<QemuOptions>,
    nics: Vec<QemuOptions>,
    objects: Vec<QemuOptions>,
    chardevs: Vec<QemuOptions>,
    monitors: Vec<QemuOptions>,
    qmp: Vec<String>,
}

/// Parses the guest that a command line of QEMU describes; `None` for another program's.
pub fn guest(task: TaskKey, words: &[String]) -> Option<GuestConfig> {
    let program = words.first()?.rsplit('/').next()?;
    let is_qemu = program.starts_with("qemu-system-") || matches!(program, "qemu-kvm" | "kvm");
    if !is_qemu {
        return None;
    }
    let line = CommandLine::parse(program, &words[1..]);
    let (disks, cards) = (block::disks(&line, task), network::cards(&line, task));
    let balloon = line.with_driver("virtio-balloon").find_map(|device| device.get("id")).map(str::to_owned);
    Some(GuestConfig { guest: line.guest(task), disks, cards, monitors: line.monitor_sockets(), balloon })
}

impl CommandLine {
    fn parse(program: &str, words: &[String]) -> Self {
        let mut line = Self { program: program.to_owned(), ..Self::default() };
        let mut words = words.iter().map(String::as_str).peekable();
        while let Some(word) = words.next() {
            let Some(option) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else { continue };
            match option {
                "enable-kvm" => line.accel = Some("kvm".to_owned()),
                "no-kvm" => line.accel = Some("tcg".to_owned()),
                _ => {
                    // An argument is the next word. After an option without an argument, the next word is another
                    // option, which is not skipped.
                    if let Some(argument) = words.peek()
                        && line.take(option, argument)
                    {
                        words.next();
                    }
                }
            }
        }
        line
    }

    /// Stores an option; returns whether it is a relevant option with an argument.
    fn take(&mut self, option: &str, argument: &str) -> bool {
        let parsed = |first: &str| QemuOptions::parse(argument, first);
        match option {
            "name" => self.name = parsed("guest"),
            "uuid" => self.uuid = Some(argument.to_owned()),
            "machine" | "M" => self.machine = parsed("type"),
            "accel" => {
                let accel = parsed("accel").get("accel").map(str::to_owned);
                self.accel = self.accel.take().or(accel);
            }
            "cpu" => self.cpu = parsed("model"),
            "smp" => self.smp = parsed("cpus"),
            "m" => self.memory = parsed("size"),
            "mem-path" => self.mem_path = Some(argument.to_owned()),
            "device" => self.devices.push(parsed("driver")),
            "drive" => self.drives.push(parsed("file")),
            "hda" | "hdb" | "hdc" | "hdd" => {
                let index = option.as_bytes()[2] - b'a';
                let text = format!("file={},if=ide,index={index}", argument.replace(',', ",,"));
                self.drives.push(QemuOptions::parse(&text, "file"));
            }
            "cdrom" => self.drives.push(QemuOptions::parse("if=ide,index=2,media=cdrom", "file")),
            "blockdev" => self.nodes.push(parsed("driver")),
            "netdev" => self.netdevs.push(parsed("type")),
            "nic" => self.nics.push(parsed("type")),
            "object" => self.objects.push(parsed("qom-type")),
            "chardev" => self.chardevs.push(parsed("backend")),
            "mon" => self.monitors.push(parsed("chardev")),
            "qmp" | "qmp-pretty" => self.qmp.push(argument.to_owned()),
            _ => return false,
        }
        true
    }

    fn guest(&self, task: TaskKey) -> Guest {
        let passed_through: Vec<&str> = self
            .with_driver("vfio-")
            .filter_map(|device| device.get("host").or_else(|| device.get("sysfsdev")))
            .collect();
        let io_threads = self.objects_of("iothread").count() as u64;
        Guest {
            name: State::from(self.name.get("guest")),
            uuid: State::from(self.uuid.as_deref()),
            architecture: State::from(self.program.strip_prefix("qemu-system-")),
            accelerator: self.accelerator().into(),
            machine: State::from(self.machine.get("type")),
            cpu_model: State::from(self.cpu.get("model")),
            cpus: self.cpus().into(),
            memory: self.memory_size().into(),
            memory_backing: self.memory_backing().into(),
            memory_nodes: State::from(self.memory_nodes()),
            io_threads: io_threads.into(),
            balloon: u64::from(self.with_driver("virtio-balloon").next().is_some()).into(),
            passed_through: State::from(Some(passed_through.join(" ")).filter(|text| !text.is_empty())),
            ..Guest::new(task)
        }
    }

    fn with_driver(&self, prefix: &str) -> impl Iterator<Item = &QemuOptions> {
        self.devices.iter().filter(move |device| device.get("driver").is_some_and(|driver| driver.starts_with(prefix)))
    }

    fn objects_of(&self, kind: &str) -> impl Iterator<Item = &QemuOptions> {
        self.objects.iter().filter(move |object| object.get("qom-type").is_some_and(|name| name.starts_with(kind)))
    }

    /// Returns the paths of `-qmp unix:PATH,server=on` and of `-chardev socket,id=mon0,path=PATH` with
    /// `-mon chardev=mon0,mode=control`.
    fn monitor_sockets(&self) -> Vec<String> {
        let of_chardev = |monitor: &QemuOptions| {
            let id = monitor.get("chardev").filter(|_| monitor.get("mode") == Some("control"))?;
            let chardev = self.chardevs.iter().find(|chardev| chardev.get("id") == Some(id))?;
            chardev.get("path").filter(|_| chardev.get("backend") == Some("socket")).map(str::to_owned)
        };
        let of_qmp = |argument: &String| {
            Some(QemuOptions::parse(argument.strip_prefix("unix:")?, "path").get("path")?.to_owned())
        };
        self.qmp.iter().filter_map(of_qmp).chain(self.monitors.iter().filter_map(of_chardev)).collect()
    }

    /// Returns the first accelerator of a list such as `kvm:tcg`, from which QEMU uses the first that works.
    fn accelerator(&self) -> &str {
        let given = self.accel.as_deref().or_else(|| self.machine.get("accel"));
        let default = if self.program.ends_with("kvm") { "kvm" } else { "tcg" };
        given.unwrap_or(default).split(':').next().unwrap_or(default)
    }

    fn cpus(&self) -> u64 {
        let number = |key| self.smp.number(key);
        let product = || {
            let known = ["sockets", "dies", "clusters", "cores", "threads"].into_iter().filter_map(number);
            known.fold(1_u64, u64::saturating_mul)
        };
        number("cpus").unwrap_or_else(product).max(1)
    }

    /// Returns the memory size, by default 128 MiB.
    fn memory_size(&self) -> Option<u64> {
        self.memory.get("size").map_or(Some(128 << 20), |text| size(text, 1 << 20))
    }

    fn memory_backends(&self) -> impl Iterator<Item = &QemuOptions> {
        self.objects_of("memory-backend-")
    }

    /// Returns `hugetlb` if the memory uses reserved pages; otherwise the kind of memory: `anonymous`, `memfd`, `file`.
    fn memory_backing(&self) -> &'static str {
        let paths =
            || self.memory_backends().filter_map(|memory| memory.get("mem-path")).chain(self.mem_path.as_deref());
        if self.memory_backends().any(|memory| memory.flag("hugetlb") == Some(true))
            || paths().any(|path| path.contains("huge"))
        {
            "hugetlb"
        } else if self.objects_of("memory-backend-memfd").next().is_some() {
            "memfd"
        } else if paths().next().is_some() {
            "file"
        } else {
            "anonymous"
        }
    }

    fn memory_nodes(&self) -> Option<String> {
        let bound =
            self.memory_backends().filter(|memory| memory.get("policy").is_some_and(|policy| policy != "default"));
        let mut nodes: Vec<&str> = bound.flat_map(|memory| memory.list("host-nodes")).collect();
        nodes.dedup();
        (!nodes.is_empty()).then(|| nodes.join(","))
    }

    fn is_q35(&self) -> bool {
        self.machine.get("type").is_some_and(|machine| machine.contains("q35"))
    }

    fn is_pc(&self) -> bool {
        let is_x86 =
            self.program.ends_with("kvm") || ["x86_64", "i386"].iter().any(|name| self.program.ends_with(name));
        is_x86 && !self.machine.get("type").is_some_and(|machine| machine.contains("microvm"))
    }
}

#[cfg(test)]
mod tests;
