//! Stable matches for devices in udev rules: by a property that stays with the device, or with its slot. The kernel assigns names
//! (sda, eth0) in the order in which devices respond, and at the next boot the same name may belong to another device.

use crate::machine::Machine;

/// Returns the match for a device of a subsystem.
///
/// # Errors
/// Fails if no property of the device is certain to be the same at the next boot.
pub(super) fn matches(machine: &Machine, subsystem: &str, name: &str) -> Result<String, String> {
    let device = UdevDevice { machine, name };
    let found = match subsystem {
        "block" => device.disk(),
        "net" => device.interface(),
        _ => None,
    };
    found.ok_or_else(|| {
        format!(
            "'{name}' has no serial number, WWN or slot for udev to identify it by, and at the next boot another device may \
             have its name"
        )
    })
}

struct UdevDevice<'a> {
    machine: &'a Machine,
    name: &'a str,
}

impl UdevDevice<'_> {
    fn disk(&self) -> Option<String> {
        let root = self.machine.root();
        let folder = format!("sys/block/{}", self.name);
        let database = root.word(&format!("{folder}/dev")).map(|dev| format!("run/udev/data/b{dev}"));
        let property = |name: &str| self.property(database.as_deref()?, name);
        let of_env = |name: &str| Some(format!("ENV{{{name}}}==\"{}\"", property(name)?));
        let of_file = |file: &str| {
            let value = root.word(&format!("{folder}/{file}")).filter(|value| is_plain(value))?;
            Some(format!("ATTR{{{file}}}==\"{value}\""))
        };
        // All paths of a multipath disk have the same serial number, and all of them are set.
        let own =
            ["ID_SERIAL", "ID_WWN_WITH_EXTENSION", "ID_WWN", "DM_UUID", "MD_UUID"].iter().find_map(|name| of_env(name));
        let own = own.or_else(|| {
            // A mapped device keeps the name that it was set up with.
            let files = ["wwid", "device/wwid", "serial", "device/serial", "dm/uuid", "md/uuid", "dm/name"];
            files.iter().find_map(|file| of_file(file))
        });
        let slot = || of_env("ID_PATH").or_else(|| self.pci("sys/block"));
        // Partitions have the properties of their disk.
        Some(format!("ENV{{DEVTYPE}}==\"disk\", {}", own.or_else(slot)?))
    }

    fn interface(&self) -> Option<String> {
        let root = self.machine.root();
        let folder = format!("sys/class/net/{}", self.name);
        if !root.at(format!("{folder}/device")).exists() {
            // A bridge, a bond or a VLAN gets this name each time it is created.
            return root
                .at(&folder)
                .exists()
                .then(|| format!("KERNEL==\"{}\"", self.name))
                .filter(|_| is_plain(self.name));
        }
        let address = || {
            // 0: the hardware's permanent address (NET_ADDR_PERM).
            let is_own = root.number(&format!("{folder}/addr_assign_type")) == Some(0);
            let address = root.word(&format!("{folder}/address")).filter(|address| is_own && is_plain(address))?;
            Some(format!("ATTR{{address}}==\"{address}\""))
        };
        self.pci("sys/class/net").or_else(address)
    }

    /// Matches the PCI function of a device; if several devices share it, also the port.
    fn pci(&self, class: &str) -> Option<String> {
        let root = self.machine.root();
        let slot = self.slot(class, self.name)?;
        let found = format!("SUBSYSTEMS==\"pci\", KERNELS==\"{slot}\"");
        let others = root.list(class).into_iter().filter(|other| other != self.name);
        if !others.into_iter().any(|other| self.slot(class, &other).as_ref() == Some(&slot)) {
            return Some(found);
        }
        let port = root.number(&format!("{class}/{}/dev_port", self.name))?;
        Some(format!("{found}, ATTR{{dev_port}}==\"{port}\""))
    }

    fn slot(&self, class: &str, name: &str) -> Option<String> {
        let link = self.machine.root().link(&format!("{class}/{name}"))?;
        link.split('/').rfind(|part| is_pci(part)).map(str::to_owned)
    }

    /// Returns a property from udev's database (whose format is systemd's own, and stable: `E:NAME=VALUE`).
    fn property(&self, path: &str, name: &str) -> Option<String> {
        let text = self.machine.root().maybe(path)?;
        let value = |line: &str| line.strip_prefix("E:")?.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        text.lines().find_map(value).filter(|value| is_plain(value))
    }
}

/// Whether the text is a PCI address: `0000:00:02.0`.
fn is_pci(part: &str) -> bool {
    let parts: Vec<&str> = part.split([':', '.']).collect();
    parts.len() == 4
        && parts[0].len() >= 4
        && part.matches(':').count() == 2
        && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Whether a rule can contain a value unchanged: it has no quotes and no pattern characters.
pub(super) fn is_plain(value: &str) -> bool {
    !value.is_empty()
        && !value.contains(['"', '*', '?', '[', '|', '\\', '$', '%'])
        && !value.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use whyslow_sense::Root;

    /// Adds a disk or an interface at `path` to a captured tree.
    fn device(folder: &std::path::Path, class: &str, name: &str, path: &str, files: &[(&str, &str)]) {
        let device = folder.join("sys/devices").join(path);
        fs::create_dir_all(&device).unwrap();
        fs::create_dir_all(folder.join(class)).unwrap();
        symlink(
            format!("../{}devices/{path}", if class == "sys/class/net" { "../" } else { "" }),
            folder.join(class).join(name),
        )
        .unwrap();
        for (file, text) in files {
            let file = device.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
    }

    #[test]
    fn a_device_is_known_by_what_stays() {
        let folder = whyslow_testing::folder();
        let at = folder.path();
        let pci = "pci0000:00/0000:00";
        device(at, "sys/block", "sda", &format!("{pci}:1f.2/ata1/block/sda"), &[("dev", "8:0\n")]);
        device(
            at,
            "sys/block",
            "vda",
            &format!("{pci}:02.0/virtio1/block/vda"),
            &[("dev", "252:0\n"), ("serial", "abc")],
        );
        device(
            at,
            "sys/block",
            "vdb",
            &format!("{pci}:04.0/virtio3/block/vdb"),
            &[("dev", "252:16\n"), ("serial", "")],
        );
        device(at, "sys/block", "nvme0n1", &format!("{pci}:05.0/nvme/nvme0/nvme0n1"), &[("wwid", "eui.1\n")]);
        device(at, "sys/block", "loop0", "virtual/block/loop0", &[]);
        let volume = [("dm/uuid", "LVM-x\n"), ("dm/name", "vg-data\n")];
        device(at, "sys/block", "dm-0", "virtual/block/dm-0", &volume);
        device(at, "sys/block", "dm-1", "virtual/block/dm-1", &[("dm/uuid", "\n"), ("dm/name", "slow\n")]);
        device(at, "sys/block", "md0", "virtual/block/md0", &[("dev", "9:0\n")]);
        device(at, "sys/class/net", "eth0", &format!("{pci}:03.0/virtio2/net/eth0"), &[("device/x", "")]);
        for port in ["0", "1"] {
            let path = format!("{pci}:06.0/net/ens{port}");
            device(at, "sys/class/net", &format!("ens{port}"), &path, &[("device/x", ""), ("dev_port", port)]);
        }
        let usb = [("device/x", ""), ("address", "52:54:00:00:00:01\n"), ("addr_assign_type", "0\n")];
        device(at, "sys/class/net", "usb0", "platform/usb/net/usb0", &usb);
        device(at, "sys/class/net", "br0", "virtual/net/br0", &[]);
        fs::create_dir_all(at.join("run/udev/data")).unwrap();
        fs::write(at.join("run/udev/data/b8:0"), "S:disk\nE:ID_WWN=0x5\nE:ID_SERIAL=SN_1\nE:ID_PATH=pci-1\n").unwrap();
        fs::write(at.join("run/udev/data/b9:0"), "E:MD_UUID=1:2:3:4\n").unwrap();
        let machine = Machine::at(Root::captured(at));
        for (subsystem, name, matched) in [
            ("block", "sda", "ENV{DEVTYPE}==\"disk\", ENV{ID_SERIAL}==\"SN_1\""),
            ("block", "vda", "ENV{DEVTYPE}==\"disk\", ATTR{serial}==\"abc\""),
            ("block", "vdb", "ENV{DEVTYPE}==\"disk\", SUBSYSTEMS==\"pci\", KERNELS==\"0000:00:04.0\""),
            ("block", "nvme0n1", "ENV{DEVTYPE}==\"disk\", ATTR{wwid}==\"eui.1\""),
            ("block", "dm-0", "ENV{DEVTYPE}==\"disk\", ATTR{dm/uuid}==\"LVM-x\""),
            ("block", "dm-1", "ENV{DEVTYPE}==\"disk\", ATTR{dm/name}==\"slow\""),
            ("block", "md0", "ENV{DEVTYPE}==\"disk\", ENV{MD_UUID}==\"1:2:3:4\""),
            ("net", "eth0", "SUBSYSTEMS==\"pci\", KERNELS==\"0000:00:03.0\""),
            ("net", "ens1", "SUBSYSTEMS==\"pci\", KERNELS==\"0000:00:06.0\", ATTR{dev_port}==\"1\""),
            ("net", "usb0", "ATTR{address}==\"52:54:00:00:00:01\""),
            ("net", "br0", "KERNEL==\"br0\""),
        ] {
            assert_eq!(matches(&machine, subsystem, name).as_deref(), Ok(matched), "{name}");
        }
        for name in ["loop0", "nosuch"] {
            assert!(matches(&machine, "block", name).unwrap_err().contains("no serial number"), "{name}");
        }
        // A serial number that would be a pattern in a rule is not used.
        fs::write(at.join("run/udev/data/b8:0"), "E:ID_SERIAL=a*\nE:ID_PATH=pci-1\n").unwrap();
        assert!(matches(&machine, "block", "sda").unwrap().ends_with("ENV{ID_PATH}==\"pci-1\""));
    }
}
