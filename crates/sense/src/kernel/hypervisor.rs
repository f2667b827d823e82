//! Whether the machine is a guest, and whose.
//!
//! Documentation/ABI/stable/sysfs-hypervisor-xen and Documentation/ABI/testing/sysfs-firmware-dmi-tables. A processor of the
//! x86 line says in its flags that it is a guest's; DMI strings alone do not, as clouds put theirs on bare metal too.

use crate::root::Root;

/// What the DMI strings of each hypervisor's guests hold; the more telling first.
const DMI: [(&str, &str); 12] = [
    ("VMware", "vmware"),
    ("VirtualBox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("Parallels", "parallels"),
    ("Xen", "xen"),
    ("Bochs", "bochs"),
    ("BHYVE", "bhyve"),
    ("KVM", "kvm"),
    ("QEMU", "qemu"),
    ("Amazon EC2", "amazon"),
    ("Google", "google"),
    ("Microsoft Corporation", "hyper-v"),
];

/// The hypervisor's name, `vm` for one that does not give it, `none` on bare metal; `None` where nothing tells.
pub(super) fn find(root: &Root) -> Option<&'static str> {
    // Xen says so itself, also in its first domain, whose processors do not.
    if root.word("sys/hypervisor/type").as_deref() == Some("xen") {
        return Some("xen");
    }
    match root.maybe("proc/cpuinfo").and_then(|text| flagged(&text)) {
        Some(false) => Some("none"),
        Some(true) => Some(named(root).unwrap_or("vm")),
        None => named(root),
    }
}

/// Whether the processor says that it is a guest's; `None` where it has no such flags (other than x86).
fn flagged(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo.lines().find_map(|l| l.strip_prefix("flags")?.trim_start().strip_prefix(':'))?;
    Some(flags.split_ascii_whitespace().any(|f| f == "hypervisor"))
}

fn named(root: &Root) -> Option<&'static str> {
    let strings =
        ["product_name", "sys_vendor"].map(|f| root.word(&format!("sys/class/dmi/id/{f}")).unwrap_or_default());
    DMI.iter().find(|(mark, _)| strings.iter().any(|s| s.contains(mark))).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn machine(files: &[(&str, &str)]) -> Option<&'static str> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path: &Path = &folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        find(&Root::captured(folder.path()))
    }

    const GUEST: (&str, &str) = ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n");
    const METAL: (&str, &str) = ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme lahf_lm\n");
    const ARM: (&str, &str) = ("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\n");
    const EC2: (&str, &str) = ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
    const QEMU: (&str, &str) = ("sys/class/dmi/id/sys_vendor", "QEMU\n");

    #[test]
    fn the_processor_decides_and_dmi_names() {
        assert_eq!(machine(&[GUEST, EC2]), Some("amazon"));
        assert_eq!(machine(&[METAL, EC2]), Some("none"));
        assert_eq!(machine(&[GUEST]), Some("vm"));
        assert_eq!(machine(&[ARM, QEMU]), Some("qemu"));
        assert_eq!(machine(&[METAL, ("sys/hypervisor/type", "xen\n")]), Some("xen"));
    }

    #[test]
    fn where_nothing_tells_it_is_unknown() {
        assert_eq!(machine(&[ARM]), None);
        assert_eq!(machine(&[]), None);
    }
}
