//! Virtual functions (SR-IOV), and the PCI Express links of storage and network adapters
//! (/sys/bus/pci/devices/*/current_link_speed and related files, Documentation/ABI/testing/sysfs-bus-pci). Other device classes,
//! such as graphics cards, lower their link speed when idle.

use crate::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::catalogue::{PcieLink, VirtualFunction};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Gauge;

pub(super) const INFO: SourceInfo =
    SourceInfo::new("sys/bus/pci/devices", "PCI Express links of disks and network cards, virtual functions").slow();

const DEVICES: &str = "sys/bus/pci/devices";
const GIGA: f64 = 1e9;

/// Base class and subclass in hexadecimal, and their names in lspci(8) (include/linux/pci_ids.h).
const CLASSES: [(&str, &str); 8] = [
    ("0104", "RAID bus controller"),
    ("0106", "SATA controller"),
    ("0107", "Serial Attached SCSI controller"),
    ("0108", "Non-Volatile memory controller"),
    ("0100", "SCSI storage controller"),
    ("0200", "Ethernet controller"),
    ("0207", "Infiniband controller"),
    ("0c04", "Fibre Channel"),
];

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let devices = root.list(DEVICES);
    if devices.is_empty() {
        return Err(SourceError::Absent("/sys/bus/pci has no devices".into()));
    }
    out.kernel.pcie_link.extend(devices.iter().filter_map(|device| of_device(root, device)));
    out.kernel.virtual_function.extend(devices.iter().filter_map(|device| {
        let part_of = root.link(&format!("{DEVICES}/{device}/physfn"))?.rsplit('/').next()?.into();
        Some(VirtualFunction { part_of, ..VirtualFunction::new(device.as_str().into()) })
    }));
    Ok(())
}

/// Reads the link of an adapter. Returns `None` for other devices, and for those that are not PCI Express or have no link.
fn of_device(root: &Root, device: &str) -> Option<PcieLink> {
    let folder = format!("{DEVICES}/{device}");
    let class = root.word(&format!("{folder}/class"))?;
    let class = class.strip_prefix("0x")?;
    let (_, what) = CLASSES.iter().find(|(code, _)| class.starts_with(code))?;
    let speed = |folder: &str, file: &str| {
        Gauge::from(root.word(&format!("{folder}/{file}")).and_then(|text| transfers(&text)))
    };
    let width = |folder: &str, file: &str| {
        Gauge::from(root.number(&format!("{folder}/{file}")).filter(|lanes| is_width(*lanes)))
    };
    let row = PcieLink {
        what: (*what).into(),
        speed: speed(&folder, "current_link_speed"),
        width: width(&folder, "current_link_width"),
        max_speed: speed(&folder, "max_link_speed"),
        max_width: width(&folder, "max_link_width"),
        ..PcieLink::new(device.into())
    };
    row.speed.get().zip(row.width.get())?;
    let port = root.link(&folder).as_deref().and_then(port_above).map(|port| format!("{DEVICES}/{port}"));
    let Some(port) = port else { return Some(row) };
    Some(PcieLink { port_speed: speed(&port, "max_link_speed"), port_width: width(&port, "max_link_width"), ..row })
}

/// Parses transfers per second from `8.0 GT/s PCIe`, before Linux 5.7 `8 GT/s`. Returns `None` for `Unknown`.
fn transfers(text: &str) -> Option<f64> {
    let number: f64 = text.split_once(" GT/s")?.0.parse().ok()?;
    (number > 0.0).then_some(number * GIGA)
}

/// Whether a number of lanes is valid: 0 means no link, 255 an unknown width (PCIE_LNK_WIDTH_UNKNOWN).
fn is_width(lanes: u64) -> bool {
    (1..=32).contains(&lanes)
}

/// Returns the address before the last in `../../../devices/pci0000:00/0000:00:1c.0/0000:01:00.0`; the root itself is not a port.
fn port_above(path: &str) -> Option<&str> {
    let port = path.rsplit('/').nth(1)?;
    (!port.starts_with("pci")).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn the_link_of_a_disk_is_compared_with_its_port() {
        let device = "sys/devices/pci0000:00/0000:00:1c.0/0000:01:00.0";
        let port = "sys/devices/pci0000:00/0000:00:1c.0";
        let tree = CapturedTree::with_files(&[]);
        for (folder, file, text) in [
            (device, "class", "0x010802\n"),
            (device, "current_link_speed", "8.0 GT/s PCIe\n"),
            (device, "current_link_width", "2\n"),
            (device, "max_link_speed", "16.0 GT/s PCIe\n"),
            (device, "max_link_width", "4\n"),
            (port, "class", "0x060400\n"),
            (port, "max_link_speed", "8 GT/s\n"),
            (port, "max_link_width", "4\n"),
        ] {
            tree.write(&format!("{folder}/{file}"), text);
        }
        tree.link("sys/bus/pci/devices/0000:01:00.0", "../../../devices/pci0000:00/0000:00:1c.0/0000:01:00.0");
        tree.link("sys/bus/pci/devices/0000:00:1c.0", "../../../devices/pci0000:00/0000:00:1c.0");
        let mut out = Snapshot::default();
        assert_eq!(read(&tree.root(), &mut out), Ok(()));
        let [link] = &out.kernel.pcie_link[..] else { panic!("{:?}", out.kernel.pcie_link) };
        assert_eq!((&*link.device, link.what.get()), ("0000:01:00.0", Some("Non-Volatile memory controller")));
        assert_eq!((link.speed.get(), link.width.get()), (Some(8e9), Some(2.0)));
        assert_eq!((link.max_speed.get(), link.max_width.get()), (Some(16e9), Some(4.0)));
        assert_eq!((link.port_speed.get(), link.port_width.get()), (Some(8e9), Some(4.0)));
    }

    #[test]
    fn a_virtual_function_is_a_part_of_its_device() {
        let tree = CapturedTree::with_files(&[
            ("sys/bus/pci/devices/0000:01:00.0/class", "0x020000\n"),
            ("sys/bus/pci/devices/0000:01:10.0/class", "0x020000\n"),
        ]);
        tree.link("sys/bus/pci/devices/0000:01:10.0/physfn", "../0000:01:00.0");
        let mut out = Snapshot::default();
        assert_eq!(read(&tree.root(), &mut out), Ok(()));
        let found: Vec<_> = out.kernel.virtual_function.iter().map(|row| (&*row.device, row.part_of.get())).collect();
        assert_eq!(found, [("0000:01:10.0", Some("0000:01:00.0"))]);
    }

    #[test]
    fn what_has_no_link_is_left_out() {
        assert_eq!((transfers("Unknown"), transfers("2.5 GT/s PCIe")), (None, Some(2.5e9)));
        assert_eq!((is_width(0), is_width(16), is_width(255)), (false, true, false));
        assert_eq!(port_above("../../../devices/pci0000:00/0000:00:03.0"), None);
        assert_eq!(port_above("../../../devices/pci0000:00/0000:00:1c.0/0000:01:00.0"), Some("0000:00:1c.0"));
        let tree = CapturedTree::with_files(&[
            // A virtual disk on the root bus, without a link.
            ("sys/bus/pci/devices/0000:00:03.0/class", "0x010000\n"),
            ("sys/bus/pci/devices/0000:00:03.0/current_link_speed", "Unknown\n"),
            ("sys/bus/pci/devices/0000:00:03.0/current_link_width", "0\n"),
            ("sys/bus/pci/devices/0000:00:04.0/class", "0x030000\n"),
            ("sys/bus/pci/devices/0000:00:04.0/current_link_speed", "2.5 GT/s\n"),
            ("sys/bus/pci/devices/0000:00:04.0/current_link_width", "16\n"),
        ]);
        let mut out = Snapshot::default();
        assert_eq!(read(&tree.root(), &mut out), Ok(()));
        assert!(out.kernel.pcie_link.is_empty());
    }
}
