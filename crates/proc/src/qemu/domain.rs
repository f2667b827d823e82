//! Definition of a guest, as printed by `virsh dumpxml` (<https://libvirt.org/formatdomain.html>).

use super::libvirt::{child, disk_limits};
use roxmltree::{Document, Node};
use whyslow_model::catalogue::{Guest, GuestCpu, GuestDisk, GuestNic};
use whyslow_model::key::{GuestDevice, TaskKey};
use whyslow_model::value::State;

/// A defined guest. Disks have the names that libvirt gives them (`vda`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LibvirtDomain {
    /// The guest itself.
    pub guest: Guest,
    /// Virtual CPUs that are bound to CPUs of the host.
    pub cpus: Vec<GuestCpu>,
    /// Its disks.
    pub disks: Vec<GuestDisk>,
    /// Its network cards.
    pub cards: Vec<GuestNic>,
}

/// Parses a definition, or parts of its devices, such as `<disk>`. `None` for any other text, and for a guest without a
/// name; `named` is the name if the text has none. `task` returns the key that stands for the guest's process.
pub fn libvirt_domain(text: &str, named: Option<&str>, task: impl Fn(&str) -> TaskKey) -> Option<LibvirtDomain> {
    let is_whole = text.trim_start().starts_with("<domain");
    let whole = if is_whole { text.to_owned() } else { format!("<domain><devices>{text}</devices></domain>") };
    let document = Document::parse(&whole).ok()?;
    let domain = document.root_element();
    let words = |name: &str| child(domain, name)?.text().map(str::trim);
    let name = words("name").or(named)?;
    let task = task(name);
    let guest = Guest {
        name: name.into(),
        uuid: State::from(words("uuid")),
        architecture: State::from(child(domain, "os").and_then(|os| child(os, "type")?.attribute("arch"))),
        accelerator: State::from(domain.attribute("type").and_then(|kind| match kind {
            "kvm" => Some("kvm"),
            "qemu" => Some("tcg"),
            // Other hypervisors.
            _ => None,
        })),
        cpus: words("vcpu").and_then(|text| text.parse::<u64>().ok()).into(),
        memory: child(domain, "memory").and_then(bytes).into(),
        memory_now: child(domain, "currentMemory").and_then(bytes).into(),
        memory_backing: State::from(is_whole.then(|| backing(domain))),
        memory_nodes: State::from(
            child(domain, "numatune").and_then(|tune| child(tune, "memory")?.attribute("nodeset")),
        ),
        io_threads: words("iothreads").and_then(|text| text.parse::<u64>().ok()).into(),
        passed_through: State::from(Some(passed_through(domain)).filter(|devices| !devices.is_empty())),
        ..Guest::new(task)
    };
    let pins = child(domain, "cputune").into_iter().flat_map(|tune| tune.children());
    let cpus = pins.filter(|pin| pin.has_tag_name("vcpupin")).filter_map(|pin| {
        let number: u32 = pin.attribute("vcpu")?.parse().ok()?;
        let thread = TaskKey { tid: task.tid.saturating_add(1).saturating_add(number), ..task };
        let (number, cpus) = (f64::from(number).into(), pin.attribute("cpuset")?.into());
        Some(GuestCpu { number, cpus, ..GuestCpu::new(thread) })
    });
    let devices = || child(domain, "devices").into_iter().flat_map(|devices| devices.children());
    let disks = devices().filter(|node| node.has_tag_name("disk")).filter_map(|node| disk(node, task));
    let cards = devices().filter(|node| node.has_tag_name("interface")).enumerate();
    let cards = cards.map(|(at, node)| card(node, at, task));
    Some(LibvirtDomain { guest, cpus: cpus.collect(), disks: disks.collect(), cards: cards.collect() })
}

/// Returns an amount of memory in bytes; the default unit is KiB.
fn bytes(node: Node<'_, '_>) -> Option<f64> {
    let amount: f64 = node.text()?.trim().parse().ok()?;
    let unit = match node.attribute("unit").unwrap_or("KiB") {
        "b" | "bytes" => 1.0,
        "KB" => 1e3,
        "k" | "KiB" => 1024.0,
        "MB" => 1e6,
        "M" | "MiB" => 1_048_576.0,
        "GB" => 1e9,
        "G" | "GiB" => 1_073_741_824.0,
        _ => return None,
    };
    Some(amount * unit)
}

fn backing(domain: Node<'_, '_>) -> &'static str {
    let Some(backing) = child(domain, "memoryBacking") else { return "anonymous" };
    let source = child(backing, "source").and_then(|source| source.attribute("type"));
    match (child(backing, "hugepages"), source) {
        (Some(_), _) => "hugetlb",
        (None, Some("memfd")) => "memfd",
        (None, Some("file")) => "file",
        _ => "anonymous",
    }
}

/// Formats PCI addresses like the kernel.
fn passed_through(domain: Node<'_, '_>) -> String {
    let devices = child(domain, "devices").into_iter().flat_map(|devices| devices.children());
    let given = devices.filter(|node| {
        node.has_tag_name("hostdev") || (node.has_tag_name("interface") && node.attribute("type") == Some("hostdev"))
    });
    let address = |node: Node<'_, '_>| {
        let address = child(child(node, "source")?, "address")?;
        let part = |name: &str| {
            let text = address.attribute(name)?;
            u32::from_str_radix(text.trim_start_matches("0x"), 16).ok()
        };
        Some(format!("{:04x}:{:02x}:{:02x}.{:x}", part("domain")?, part("bus")?, part("slot")?, part("function")?))
    };
    given.filter_map(address).collect::<Vec<_>>().join(" ")
}

fn disk(node: Node<'_, '_>, task: TaskKey) -> Option<GuestDisk> {
    let target = child(node, "target")?;
    let driver = child(node, "driver");
    let of_driver = |name: &str| State::from(driver.and_then(|driver| driver.attribute(name)));
    let (model, controller) = match target.attribute("bus") {
        Some("virtio") => (Some("virtio-blk-pci"), None),
        // A part of a definition may lack the controller.
        Some("scsi") => has_virtio_scsi(node)
            .map_or((None, None), |is_virtio| (Some("scsi-hd"), Some("virtio-scsi-pci").filter(|_| is_virtio))),
        Some("ide" | "sata") => (Some("ide-hd"), None),
        Some("usb") => (Some("usb-storage"), None),
        _ => (None, None),
    };
    let source = child(node, "source");
    let file = source.and_then(|source| ["file", "dev"].iter().find_map(|name| source.attribute(*name)));
    let text = |name: &str| State::from(child(node, name).and_then(|node| node.text()).map(str::trim));
    let mut disk = GuestDisk {
        model: State::from(model),
        controller: State::from(controller),
        file: State::from(file),
        format: of_driver("type"),
        cache: of_driver("cache"),
        aio: of_driver("io"),
        discard: of_driver("discard"),
        detect_zeroes: of_driver("detect_zeroes"),
        io_thread: of_driver("iothread"),
        queues: driver.and_then(|driver| driver.attribute("queues")?.parse::<u64>().ok()).into(),
        serial: text("serial"),
        wwn: text("wwn"),
        read_only: u64::from(child(node, "readonly").is_some()).into(),
        ..GuestDisk::new(GuestDevice { task, name: target.attribute("dev")?.into() })
    };
    if let Some(limits) = disk_limits(node) {
        limits.set(&mut disk);
    }
    Some(disk)
}

/// Returns whether a controller of the same definition is virtio-scsi; `None` if it shows no SCSI controller.
fn has_virtio_scsi(disk: Node<'_, '_>) -> Option<bool> {
    let others = disk.parent().into_iter().flat_map(|devices| devices.children());
    let controllers = others.filter(|node| node.has_tag_name("controller") && node.attribute("type") == Some("scsi"));
    controllers.map(|node| node.attribute("model") == Some("virtio-scsi")).reduce(|a, b| a || b)
}

fn card(node: Node<'_, '_>, at: usize, task: TaskKey) -> GuestNic {
    let attribute = |of: &str, name: &str| child(node, of).and_then(|child| child.attribute(name).map(str::to_owned));
    let model = attribute("model", "type");
    let is_virtio = model.as_deref() == Some("virtio");
    let is_tap = matches!(node.attribute("type"), Some("bridge" | "network" | "ethernet" | "direct"));
    // By default libvirt lets the kernel move the packets of a virtio card.
    let vhost = match attribute("driver", "name").as_deref() {
        Some("vhost") => Some(1u64),
        Some("qemu") => Some(0),
        _ => is_tap.then_some(u64::from(is_virtio)),
    };
    let queues = attribute("driver", "queues").and_then(|queues| queues.parse::<u64>().ok());
    // If parts of a definition are read separately, each would begin with the first card.
    let name = attribute("target", "dev").or_else(|| attribute("mac", "address")).unwrap_or_else(|| format!("net{at}"));
    GuestNic {
        model: State::from(model.map(|model| if model == "virtio" { "virtio-net-pci".to_owned() } else { model })),
        backend: State::from(is_tap.then_some("tap")),
        vhost: vhost.into(),
        queues: queues.or(is_tap.then_some(1)).into(),
        mac: State::from(attribute("mac", "address")),
        interface: State::from(attribute("target", "dev")),
        ..GuestNic::new(GuestDevice { task, name: name.as_str().into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: &str = "<domain type='kvm' id='7'>
  <name>db9</name>
  <memory unit='GiB'>8</memory>
  <currentMemory unit='KiB'>4194304</currentMemory>
  <memoryBacking><hugepages/></memoryBacking>
  <vcpu placement='static'>4</vcpu>
  <iothreads>2</iothreads>
  <cputune><vcpupin vcpu='1' cpuset='2-3'/></cputune>
  <numatune><memory mode='strict' nodeset='1'/></numatune>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <devices>
    <disk type='block' device='disk'>
      <driver name='qemu' type='raw' cache='none' io='native' discard='unmap' iothread='1' queues='4'/>
      <source dev='/dev/vg/db9'/>
      <target dev='vda' bus='virtio'/>
      <iotune><total_iops_sec>500</total_iops_sec></iotune>
      <serial>S-1</serial>
    </disk>
    <controller type='scsi' index='0' model='virtio-scsi'/>
    <disk type='file' device='disk'><source file='/srv/b.img'/><target dev='sda' bus='scsi'/></disk>
    <interface type='bridge'><mac address='52:54:00:00:00:01'/><target dev='vnet3'/><model type='virtio'/><driver queues='2'/></interface>
    <interface type='network'><model type='e1000'/></interface>
    <hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='0x01' slot='0x10' function='0x2'/></source></hostdev>
  </devices>
</domain>";

    fn parsed(text: &str, named: Option<&str>) -> Option<LibvirtDomain> {
        libvirt_domain(text, named, |_| TaskKey { pid: 9, tid: 9, start: 0 })
    }

    #[test]
    fn a_definition_says_how_a_guest_is_built() {
        let LibvirtDomain { guest, cpus, disks, cards } = parsed(DOMAIN, None).unwrap();
        assert_eq!(
            (guest.name.get(), guest.accelerator.get(), guest.cpus.get()),
            (Some("db9"), Some("kvm"), Some(4.0))
        );
        let gib = f64::from(1 << 30);
        assert_eq!((guest.memory.get(), guest.memory_now.get()), (Some(8.0 * gib), Some(4.0 * gib)));
        assert_eq!((guest.memory_backing.get(), guest.memory_nodes.get()), (Some("hugetlb"), Some("1")));
        assert_eq!(guest.passed_through.get(), Some("0000:01:10.2"));
        assert_eq!((cpus[0].number.get(), cpus[0].cpus.get()), (Some(1.0), Some("2-3")));
        let [first, second] = &disks[..] else { panic!("{disks:?}") };
        assert_eq!((&*first.disk.name, first.cache.get(), first.aio.get()), ("vda", Some("none"), Some("native")));
        assert_eq!((first.limit_operations.get(), first.serial.get()), (Some(500.0), Some("S-1")));
        assert_eq!((first.io_thread.get(), first.queues.get()), (Some("1"), Some(4.0)));
        assert_eq!((second.controller.get(), second.file.get()), (Some("virtio-scsi-pci"), Some("/srv/b.img")));
        let [first, second] = &cards[..] else { panic!("{cards:?}") };
        assert_eq!(
            (first.vhost.get(), first.queues.get(), first.interface.get()),
            (Some(1.0), Some(2.0), Some("vnet3"))
        );
        assert_eq!((second.vhost.get(), second.model.get()), (Some(0.0), Some("e1000")));
    }

    #[test]
    fn parts_of_a_definition_need_the_guests_name() {
        let disk = "<disk type='file'><target dev='vdb' bus='virtio'/></disk>";
        assert_eq!(parsed(disk, None), None);
        let domain = parsed(disk, Some("web1")).unwrap();
        assert_eq!((domain.guest.name.get(), domain.guest.memory_backing.get()), (Some("web1"), None));
        assert_eq!(&*domain.disks[0].disk.name, "vdb");
        assert_eq!(parsed("<disk type='file'><target", Some("web1")), None);
    }
}
