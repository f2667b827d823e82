//! The adapter of a disk, found by the path of its device in sysfs (Documentation/ABI/testing/sysfs-bus-pci,
//! sysfs-class-scsi_host, sysfs-class-nvme).

use crate::Root;

/// Prefixes of numbered device names on the path, and the transport that each implies.
const TRANSPORTS: [(&str, &str); 8] = [
    ("ata", "ata"),
    ("usb", "usb"),
    ("session", "iscsi"),
    ("rport-", "fc"),
    ("end_device-", "sas"),
    ("mmc", "mmc"),
    ("vbd-", "xen"),
    ("virtio", "virtio"),
];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Adapter {
    /// PCI address.
    pub(super) bus: Option<String>,
    /// `host0`, `nvme0`, `virtio1`.
    pub(super) name: Option<String>,
    pub(super) driver: Option<String>,
    pub(super) transport: Option<String>,
    /// Maximum number of commands in flight.
    pub(super) depth: Option<u64>,
    /// Bit rate of the link to the disk, including its encoding; bits per second.
    pub(super) link_speed: Option<u64>,
    pub(super) numa_node: Option<u64>,
}

impl Adapter {
    /// Finds the adapter of the disk in this sysfs folder. Virtual devices (dm, md, loop, zram) have none.
    pub(super) fn read(root: &Root, folder: &str) -> Self {
        let path = root.word(&format!("{folder}/dev")).and_then(|number| root.link(&format!("sys/dev/block/{number}")));
        let Some(path) = path else { return Self::default() };
        let parts: Vec<&str> = path.split('/').collect();
        let mut adapter = match nvme_controllers(root, folder, &parts) {
            controllers if !controllers.is_empty() => Self::of_nvme(root, &controllers),
            _ => Self::of_path(root, &parts),
        };
        if let Some(bus) = &adapter.bus {
            let device = format!("sys/bus/pci/devices/{bus}");
            adapter.numa_node = root.number(&format!("{device}/numa_node"));
            adapter.driver = adapter.driver.or_else(|| driver(root, &device));
        }
        adapter
    }

    fn of_path(root: &Root, parts: &[&str]) -> Self {
        let transport = TRANSPORTS.iter().find(|(prefix, _)| parts.iter().any(|part| is_numbered(part, prefix)));
        let bus = parts.iter().rfind(|part| is_pci_address(part)).map(|part| (*part).to_owned());
        let named = |prefix| parts.iter().find(|part| is_numbered(part, prefix)).copied();
        let (name, driver, depth) = match (named("host"), named("virtio"), named("mmc")) {
            (Some(host), ..) => {
                let class = format!("sys/class/scsi_host/{host}");
                // Some drivers leave the name of their directory under /proc empty.
                let name = root.word(&format!("{class}/proc_name")).filter(|name| !name.is_empty() && name != "<NULL>");
                (Some(host), name, root.number(&format!("{class}/can_queue")))
            }
            (None, Some(virtio), _) => (Some(virtio), driver(root, &format!("sys/bus/virtio/devices/{virtio}")), None),
            (None, None, mmc) => (mmc, None, None),
        };
        Self {
            bus,
            name: name.map(str::to_owned),
            driver,
            transport: transport.map(|(_, transport)| (*transport).to_owned()),
            depth,
            link_speed: link_speed(root, parts),
            numa_node: None,
        }
    }

    /// Describes the adapter of an NVMe disk. If several controllers lead to the disk, the bus is that of the first.
    fn of_nvme(root: &Root, controllers: &[String]) -> Self {
        let word = |name: &String, file: &str| root.word(&format!("sys/class/nvme/{name}/{file}"));
        let address = controllers.iter().find_map(|name| word(name, "address"));
        let transport = controllers.iter().find_map(|name| word(name, "transport"));
        Self {
            bus: address.filter(|address| is_pci_address(address)),
            name: Some(controllers.join(", ")),
            transport: Some(transport.map_or_else(|| "nvme".into(), |transport| format!("nvme over {transport}"))),
            ..Self::default()
        }
    }
}

/// Lists the controllers of an NVMe disk: the one on its path or, with native multipath, whose disks belong to a subsystem, those
/// of the subsystem (drivers/nvme/host/multipath.c).
fn nvme_controllers(root: &Root, folder: &str, path: &[&str]) -> Vec<String> {
    let on_path: Vec<String> =
        path.iter().rev().skip(1).filter(|part| is_numbered(part, "nvme")).map(|part| (*part).to_owned()).collect();
    if !on_path.is_empty() || !path.iter().any(|part| part.starts_with("nvme-subsys")) {
        return on_path;
    }
    let mut entries = root.list(&format!("{folder}/device"));
    entries.retain(|entry| is_numbered(entry, "nvme"));
    entries
}

/// Reads the negotiated speed of the link on this path, by its transport class (Documentation/ABI/testing/sysfs-ata,
/// drivers/scsi/scsi_transport_sas.c, scsi_transport_fc.c; sysfs-bus-usb).
fn link_speed(root: &Root, parts: &[&str]) -> Option<u64> {
    let named = |prefix: &str| parts.iter().position(|part| is_numbered(part, prefix));
    if let Some(at) = named("ata") {
        let link = parts[at].strip_prefix("ata")?;
        return bits(&root.word(&format!("sys/class/ata_link/link{link}/sata_spd"))?);
    }
    if let Some(at) = named("end_device-") {
        // The fastest lane of a wide port.
        let port = format!("sys/class/sas_port/{}/device", parts.get(at.checked_sub(1)?)?);
        let phys = root.list(&port).into_iter().filter(|entry| is_numbered(entry, "phy-"));
        return phys.filter_map(|phy| bits(&root.word(&format!("sys/class/sas_phy/{phy}/negotiated_linkrate"))?)).max();
    }
    if named("rport-").is_some() {
        let host = parts[named("host")?];
        return bits(&root.word(&format!("sys/class/fc_host/{host}/speed"))?);
    }
    // `usb2/2-1/2-1.4/2-1.4:1.0`: the last part that names a device rather than an interface.
    let is_usb = |part: &&&str| part.contains('-') && !part.contains(':') && is_numbered(&part.replace('.', "-"), "");
    let device = parts.iter().rfind(is_usb).filter(|_| named("usb").is_some())?;
    let megabits: f64 = root.word(&format!("sys/bus/usb/devices/{device}/speed"))?.parse().ok()?;
    Some((megabits * 1e6) as u64)
}

/// Parses `6.0 Gbps`, `12.0 Gbit`, `16 Gbit`. Returns `None` for `Unknown` or `<unknown>`.
fn bits(text: &str) -> Option<u64> {
    let (number, unit) = text.split_once(' ')?;
    let gigabits: f64 = number.parse().ok().filter(|gigabits| *gigabits > 0.0 && unit.starts_with("Gb"))?;
    Some((gigabits * 1e9) as u64)
}

fn driver(root: &Root, device: &str) -> Option<String> {
    root.link(&format!("{device}/driver"))?.rsplit('/').next().map(str::to_owned)
}

/// Whether a name is the prefix followed by a number, or by several numbers joined by `:` and `-` (`rport-0:0-1`).
fn is_numbered(name: &str, prefix: &str) -> bool {
    let digit = |b: u8| b.is_ascii_digit() || b == b':' || b == b'-';
    name.strip_prefix(prefix)
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.bytes().all(digit))
}

/// Whether the text is a PCI address, `0000:00:1f.2`: domain, bus, device and function, in hexadecimal.
pub(super) fn is_pci_address(text: &str) -> bool {
    let lengths: Vec<usize> = text.split([':', '.']).map(str::len).collect();
    let are_hex = text.bytes().all(|b| b.is_ascii_hexdigit() || matches!(b, b':' | b'.'));
    are_hex && matches!(lengths[..], [domain, 2, 2, 1] if domain >= 4) && text.matches('.').count() == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    fn adapter(path: &str, files: &[(&str, &str)], links: &[(&str, &str)]) -> Adapter {
        let tree = CapturedTree::with_files(&[("sys/block/x/dev", "8:0\n")]);
        files.iter().for_each(|(path, text)| tree.write(path, text));
        links.iter().for_each(|(path, to)| tree.link(path, to));
        tree.link("sys/dev/block/8:0", path);
        Adapter::read(&tree.root(), "sys/block/x")
    }

    #[test]
    fn a_scsi_disk_has_a_host_with_a_depth() {
        let found = adapter(
            "../../devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda",
            &[
                ("sys/class/scsi_host/host0/proc_name", "ahci\n"),
                ("sys/class/scsi_host/host0/can_queue", "32\n"),
                ("sys/class/ata_link/link1/sata_spd", "6.0 Gbps\n"),
                ("sys/bus/pci/devices/0000:00:1f.2/numa_node", "1\n"),
            ],
            &[],
        );
        let expected = Adapter {
            bus: Some("0000:00:1f.2".into()),
            name: Some("host0".into()),
            driver: Some("ahci".into()),
            transport: Some("ata".into()),
            depth: Some(32),
            link_speed: Some(6_000_000_000),
            numa_node: Some(1),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn the_speed_of_a_link_is_that_of_its_transport() {
        let sas = adapter(
            "../../devices/pci0000:00/0000:03:00.0/host4/port-4:0/end_device-4:0/target4:0:0/4:0:0:0/block/sdb",
            &[
                ("sys/class/sas_port/port-4:0/device/phy-4:0/uevent", ""),
                ("sys/class/sas_phy/phy-4:0/negotiated_linkrate", "12.0 Gbit\n"),
            ],
            &[],
        );
        assert_eq!((sas.transport.as_deref(), sas.link_speed), (Some("sas"), Some(12_000_000_000)));
        let fc = adapter(
            "../../devices/pci0000:00/0000:03:00.0/host5/rport-5:0-1/target5:0:1/5:0:1:7/block/sdc",
            &[("sys/class/fc_host/host5/speed", "16 Gbit\n")],
            &[],
        );
        assert_eq!(fc.link_speed, Some(16_000_000_000));
        let usb = adapter(
            "../../devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1.4/2-1.4:1.0/host6/target6:0:0/6:0:0:0/block/sdd",
            &[("sys/bus/usb/devices/2-1.4/speed", "5000\n")],
            &[],
        );
        assert_eq!((usb.transport.as_deref(), usb.link_speed), (Some("usb"), Some(5_000_000_000)));
        assert_eq!((bits("<unknown>"), bits("Unknown"), bits("6.0 Gbps")), (None, None, Some(6_000_000_000)));
    }

    #[test]
    fn the_bus_is_the_innermost_bridge_address() {
        let found = adapter(
            "../../devices/pci0000:00/0000:00:02.0/0000:03:00.0/host4/rport-4:0-1/target4:0:1/4:0:1:7/block/sdq",
            &[("sys/class/scsi_host/host4/proc_name", "<NULL>\n")],
            &[("sys/bus/pci/devices/0000:03:00.0/driver", "../../../../bus/pci/drivers/qla2xxx")],
        );
        assert_eq!(found.bus.as_deref(), Some("0000:03:00.0"));
        assert_eq!((found.transport.as_deref(), found.driver.as_deref()), (Some("fc"), Some("qla2xxx")));
        assert_eq!((found.depth, found.numa_node), (None, None));
    }

    #[test]
    fn a_virtio_disk_is_driven_by_virtio_not_by_pci() {
        let found = adapter(
            "../../devices/pci0000:00/0000:00:02.0/virtio1/block/vda",
            // -1: no NUMA node.
            &[("sys/bus/pci/devices/0000:00:02.0/numa_node", "-1\n")],
            &[
                ("sys/bus/virtio/devices/virtio1/driver", "../../../bus/virtio/drivers/virtio_blk"),
                ("sys/bus/pci/devices/0000:00:02.0/driver", "../../bus/pci/drivers/virtio-pci"),
            ],
        );
        assert_eq!((found.name.as_deref(), found.driver.as_deref()), (Some("virtio1"), Some("virtio_blk")));
        assert_eq!((found.transport.as_deref(), found.numa_node), (Some("virtio"), None));
    }

    #[test]
    fn an_nvme_disk_has_the_controllers_of_its_path_or_of_its_subsystem() {
        let class = [("sys/class/nvme/nvme0/transport", "pcie\n"), ("sys/class/nvme/nvme0/address", "0000:01:00.0\n")];
        let alone = adapter("../../devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1", &class, &[]);
        assert_eq!((alone.name.as_deref(), alone.bus.as_deref()), (Some("nvme0"), Some("0000:01:00.0")));
        assert_eq!(alone.transport.as_deref(), Some("nvme over pcie"));
        let shared = adapter(
            "../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme1n1",
            &[
                ("sys/block/x/device/nvme1/state", "live\n"),
                ("sys/block/x/device/nvme2/state", "live\n"),
                ("sys/block/x/device/nvme1n1/size", "1\n"),
                ("sys/class/nvme/nvme1/transport", "tcp\n"),
                ("sys/class/nvme/nvme1/address", "traddr=10.0.0.1,trsvcid=4420\n"),
            ],
            &[],
        );
        assert_eq!((shared.name.as_deref(), shared.bus), (Some("nvme1, nvme2"), None));
        assert_eq!(shared.transport.as_deref(), Some("nvme over tcp"));
    }

    #[test]
    fn a_device_of_the_kernels_own_has_no_adapter() {
        assert_eq!(adapter("../../devices/virtual/block/dm-0", &[], &[]), Adapter::default());
        assert_eq!(Adapter::read(&CapturedTree::with_files(&[]).root(), "sys/block/x"), Adapter::default());
    }
}
