//! Collects what the log shows about devices besides their errors: names, models, the address of each port.

use super::target::{bracketed, target};
use crate::kernel_log::disk_of;
use crate::kernel_log::words::{after, is_number, says};
use std::collections::{BTreeMap, BTreeSet};

/// Drivers for which libata creates a SCSI host per port.
const LIBATA: [&str; 4] = ["ahci", "ata_", "sata_", "pata_"];

/// Devices by target.
#[derive(Debug, Default)]
pub struct KnownDevices {
    names: BTreeMap<String, String>,
    /// The reverse of `names`; for a reused name, its current target.
    targets: BTreeMap<String, String>,
    models: BTreeMap<String, String>,
    /// Serial numbers of USB devices by port, and the port of each SCSI host.
    usb_serials: BTreeMap<String, String>,
    usb_hosts: BTreeMap<String, String>,
    /// Address of each ATA port's device.
    addresses: BTreeMap<String, String>,
    /// Ports of drives with removable media.
    removable: BTreeSet<String>,
    /// Hosts and ports of libata, in the order in which they were found.
    hosts: Vec<String>,
    ports: Vec<String>,
}

impl KnownDevices {
    /// Returns the name of a target's device.
    pub fn name(&self, target: &str) -> Option<&str> {
        self.names.get(target).map(String::as_str)
    }

    /// Returns vendor, model and firmware of a target's device.
    pub fn model(&self, target: &str) -> Option<&str> {
        self.models.get(target).map(String::as_str)
    }

    /// Returns the serial number of a target's USB device.
    pub fn serial(&self, target: &str) -> Option<&str> {
        let port = self.usb_hosts.get(target.split(':').next()?)?;
        self.usb_serials.get(port).map(String::as_str)
    }

    /// Iterates over the other names of a target: its ports.
    pub fn ports_of(&self, address: &str) -> impl Iterator<Item = &str> {
        self.addresses.iter().filter(move |(_, a)| *a == address).map(|(port, _)| port.as_str())
    }

    /// Returns true if a target has removable media.
    pub fn is_removable(&self, target: &str) -> bool {
        self.removable.contains(target)
    }

    /// Returns the target of a device name, or else the disk itself.
    pub fn target_of(&self, device: &str) -> String {
        let disk = disk_of(device);
        let known = self.targets.get(device).or_else(|| self.targets.get(disk));
        known.map_or_else(|| disk.to_owned(), String::clone)
    }

    /// Returns the final address of a target that was first seen under another name.
    pub fn settled(&self, target: &str) -> String {
        let numbered = || match target.split_once('.') {
            Some((port, "00")) => {
                let at = self.ports.iter().position(|p| p == port)?;
                let host = self.hosts.get(at).filter(|_| self.hosts.len() == self.ports.len())?;
                Some(format!("{host}:0:0:0"))
            }
            _ => None,
        };
        self.addresses.get(target).cloned().or_else(numbered).unwrap_or_else(|| self.target_of(target))
    }

    /// Learns a target's name.
    pub fn name_it(&mut self, target: &str, device: &str) {
        if !self.names.contains_key(target) {
            self.call_it(target.to_owned(), disk_of(device));
        }
    }

    fn call_it(&mut self, target: String, name: &str) {
        self.targets.insert(name.to_owned(), target.clone());
        self.names.insert(target, name.to_owned());
    }

    /// Learns the address of a port's device.
    pub fn address_it(&mut self, port: &str, address: &str) {
        if !self.addresses.values().any(|a| a == address) {
            self.addresses.entry(port.to_owned()).or_insert_with(|| address.to_owned());
        }
    }

    /// Learns from a line.
    pub fn learn(&mut self, text: &str) {
        self.hosts_and_ports(text);
        self.usb(text);
        let Some(target) = target(text) else {
            self.without_target(text);
            return;
        };
        if let Some(name) = bracketed(text) {
            self.call_it(target, name);
        } else if let Some(name) = after(text, "Attached scsi disk ").and_then(|rest| rest.split(' ').next()) {
            self.call_it(target, name);
        } else if let Some(inquiry) = after(text, "Direct-Access") {
            let inquiry = inquiry.split(" PQ:").next().unwrap_or(inquiry);
            self.models.insert(target, model(inquiry.trim().trim_start_matches("ATA ")));
        } else if let Some((_, rest)) = text.split_once(": ATA-").and_then(|(_, rest)| rest.split_once(": ")) {
            let (model, rest) = rest.split_once(", ").unwrap_or((rest, ""));
            let firmware = rest.split(',').next().unwrap_or_default();
            self.models.insert(target, format!("{}, firmware {firmware}", model.trim()));
        } else if says(text, &[": ATAPI: ", "failed command: PACKET"]) {
            self.removable.insert(target);
        }
    }

    /// Parses `usb 2-1: SerialNumber: 575834`, `scsi host6: usb-storage 2-1:1.0`; uas names no port.
    fn usb(&mut self, text: &str) {
        if let Some((port, serial)) = text.strip_prefix("usb ").and_then(|rest| rest.split_once(": SerialNumber: ")) {
            self.usb_serials.insert(port.to_owned(), serial.trim().to_owned());
        } else if let Some((host, rest)) = text.strip_prefix("scsi").and_then(|rest| rest.split_once(": usb-storage "))
        {
            let port = rest.split(':').next().unwrap_or(rest);
            self.usb_hosts.insert(host.trim().trim_start_matches("host").to_owned(), port.to_owned());
        }
    }

    /// Parses `hda: ST380011A, ATA DISK drive`, `mmcblk0: mmc0:0001 SD16G 14.5 GiB`.
    fn without_target(&mut self, text: &str) {
        if let Some((name, model)) = text.strip_suffix(", ATA DISK drive").and_then(|t| t.split_once(": ")) {
            self.models.insert(name.trim().to_owned(), model.to_owned());
        } else if let Some((name, rest)) = text.split_once(": mmc")
            && name.starts_with("mmcblk")
            && let Some((slot, model)) = rest.split_once(' ')
        {
            self.call_it(format!("mmc{}", slot.split(':').next().unwrap_or(slot)), name);
            self.models.insert(name.to_owned(), model.trim().to_owned());
        }
    }

    /// Parses `scsi host0: ahci`, `scsi0 : ata_piix`; `ata1: SATA max UDMA/133 abar ...`. libata creates the hosts of a
    /// controller's ports, and then names the ports, in the same order.
    fn hosts_and_ports(&mut self, text: &str) {
        if let Some((host, driver)) = text.strip_prefix("scsi").and_then(|t| t.split_once(": ")) {
            let number = host.trim().trim_start_matches("host");
            if is_number(number) && LIBATA.iter().any(|name| driver.starts_with(name)) {
                self.hosts.push(number.to_owned());
            }
        } else if let Some((port, _)) =
            text.split_once(": ").filter(|(_, rest)| rest.starts_with("SATA max") || rest.starts_with("PATA max"))
            && port.strip_prefix("ata").is_some_and(is_number)
        {
            self.ports.push(port.to_owned());
        }
    }
}

/// Formats `SEAGATE  ST3500630NS      3.AE`: vendor, model and firmware in columns.
fn model(inquiry: &str) -> String {
    let words: Vec<&str> = inquiry.split_whitespace().collect();
    match words.split_last() {
        Some((firmware, rest)) if !rest.is_empty() => format!("{}, firmware {firmware}", rest.join(" ")),
        _ => inquiry.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_matched_with_its_address() {
        let mut known = KnownDevices::default();
        for line in [
            "scsi host0: ahci",
            "scsi host1: ahci",
            "ata1: SATA max UDMA/133 abar m2048@0xf7d36000 port 0xf7d36100 irq 27",
            "ata2: SATA max UDMA/133 abar m2048@0xf7d36000 port 0xf7d36180 irq 27",
            "ata2.00: ATA-8: WDC WD10EZEX-08WN4A0, 01.01A01, max UDMA/133",
            "scsi 1:0:0:0: Direct-Access     ATA      WDC WD10EZEX-08W 1A01 PQ: 0 ANSI: 5",
            "sd 1:0:0:0: [sdb] 1953525168 512-byte logical blocks",
            "hda: ST380011A, ATA DISK drive",
            "mmcblk0: mmc0:0001 SD16G 14.5 GiB",
            "usb 2-1: SerialNumber: 57583431",
            "scsi host6: usb-storage 2-1:1.0",
        ] {
            known.learn(line);
        }
        assert_eq!(known.settled("ata2.00"), "1:0:0:0");
        assert_eq!(known.settled("sdb1"), "1:0:0:0");
        assert_eq!(known.settled("ata3.00"), "ata3.00");
        assert_eq!(known.model("1:0:0:0"), Some("WDC WD10EZEX-08W, firmware 1A01"));
        assert_eq!((known.serial("6:0:0:0"), known.serial("1:0:0:0")), (Some("57583431"), None));
        assert_eq!(known.model("ata2.00"), Some("WDC WD10EZEX-08WN4A0, firmware 01.01A01"));
        assert_eq!((known.model("hda"), known.name("mmc0")), (Some("ST380011A"), Some("mmcblk0")));
    }
}
