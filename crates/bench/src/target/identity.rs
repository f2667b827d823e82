//! What identifies a device, to be typed before it is overwritten.

use super::StorageMap;
use super::device::folder;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceIdentity {
    pub(super) text: String,
    pub(super) is: &'static str,
}

impl DeviceIdentity {
    /// Whether it comes from the device itself.
    pub(super) fn is_serial(&self) -> bool {
        FILES.iter().any(|(_, is)| *is == self.is)
    }
}

/// Files in sysfs: serial numbers of virtio and NVMe, and what SCSI, dm and md have instead.
const FILES: [(&str, &str); 5] = [
    ("serial", "its serial number (lsblk -o NAME,SERIAL)"),
    ("device/serial", "its serial number (lsblk -o NAME,SERIAL)"),
    ("device/wwid", "its world-wide name (cat /sys/block/NAME/device/wwid)"),
    ("dm/uuid", "its UUID (dmsetup info)"),
    ("md/uuid", "its UUID (mdadm --detail)"),
];

/// The identity of a device, or of the disk it is a partition of.
pub(super) fn of(map: &StorageMap, device: &str) -> DeviceIdentity {
    let whole = map.topology.below(device).find(|lower| map.relation(device, lower) == Some("partition"));
    let device = whole.map_or(device, |whole| &**whole);
    let folder = folder(device);
    let known = |file: &str| map.root.word(&format!("{folder}/{file}")).filter(|text| !text.is_empty());
    if let Some(serial) = scsi_serial(map, &folder) {
        return DeviceIdentity { text: serial, is: FILES[0].1 };
    }
    if let Some((text, is)) = FILES.iter().find_map(|(file, is)| Some((known(file)?, is))) {
        return DeviceIdentity { text, is };
    }
    match known("loop/backing_file") {
        Some(text) => DeviceIdentity { text, is: "the path of the file behind it (losetup -l)" },
        None => {
            let size = known("size").and_then(|sectors| sectors.parse::<u64>().ok()).unwrap_or(0).saturating_mul(512);
            DeviceIdentity {
                text: format!("{device}:{size}"),
                is: "NAME:BYTES, for it has no serial number (lsblk -b -o NAME,SIZE)",
            }
        }
    }
}

/// The Unit Serial Number page of a SCSI disk: four bytes of header, then text (SPC-4, 7.8.15).
fn scsi_serial(map: &StorageMap, folder: &str) -> Option<String> {
    let page = std::fs::read(map.root.at(format!("{folder}/device/vpd_pg80"))).ok()?;
    let text = String::from_utf8_lossy(page.get(4..)?).trim_matches(['\0', ' ']).to_owned();
    (!text.is_empty()).then_some(text)
}
