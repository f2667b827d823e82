//! Detects whether the machine is a guest, and its hypervisor.
//!
//! Documentation/ABI/stable/sysfs-hypervisor-xen and Documentation/ABI/testing/sysfs-firmware-dmi-tables. On x86 a CPU flag marks
//! a guest; DMI strings alone do not, because clouds set theirs on bare metal too.

use crate::root::Root;

/// Substrings of the DMI strings of each hypervisor's guests, the more specific ones first.
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

/// Returns the hypervisor's name, `vm` if its name is unknown, `none` on bare metal; `None` if it cannot be determined.
pub(super) fn find(root: &Root) -> Option<&'static str> {
    // Xen reports itself in sysfs, also in its first domain, whose CPUs lack the flag.
    if root.word("sys/hypervisor/type").as_deref() == Some("xen") {
        return Some("xen");
    }
    match root.maybe("proc/cpuinfo").and_then(|text| has_hypervisor_flag(&text)) {
        Some(false) => Some("none"),
        Some(true) => Some(named_by_dmi(root).unwrap_or("vm")),
        None => named_by_dmi(root),
    }
}

/// Whether the CPU flags mark a guest; `None` on CPUs without such flags (other than x86).
fn has_hypervisor_flag(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo.lines().find_map(|l| l.strip_prefix("flags")?.trim_start().strip_prefix(':'))?;
    Some(flags.split_ascii_whitespace().any(|f| f == "hypervisor"))
}

fn named_by_dmi(root: &Root) -> Option<&'static str> {
    let strings =
        ["product_name", "sys_vendor"].map(|f| root.word(&format!("sys/class/dmi/id/{f}")).unwrap_or_default());
    DMI.iter().find(|(part, _)| strings.iter().any(|s| s.contains(part))).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    const GUEST: (&str, &str) = ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n");
    const METAL: (&str, &str) = ("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu vme lahf_lm\n");
    const ARM: (&str, &str) = ("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\n");
    const EC2: (&str, &str) = ("sys/class/dmi/id/sys_vendor", "Amazon EC2\n");
    const QEMU: (&str, &str) = ("sys/class/dmi/id/sys_vendor", "QEMU\n");

    #[test]
    fn the_cpu_decides_and_dmi_names() {
        let machine = |files: &[(&str, &str)]| find(&CapturedTree::with_files(files).root());
        assert_eq!(machine(&[GUEST, EC2]), Some("amazon"));
        assert_eq!(machine(&[METAL, EC2]), Some("none"));
        assert_eq!(machine(&[GUEST]), Some("vm"));
        assert_eq!(machine(&[ARM, QEMU]), Some("qemu"));
        assert_eq!(machine(&[METAL, ("sys/hypervisor/type", "xen\n")]), Some("xen"));
        assert_eq!((machine(&[ARM]), machine(&[])), (None, None));
    }
}
