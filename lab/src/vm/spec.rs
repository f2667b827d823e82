//! Specification of the virtual machine that a trial needs.

use std::fs;

/// Hardware of a virtual machine, in addition to the disk of its root file system.
pub struct VmSpec {
    pub cpus: u32,
    pub memory_mib: u32,
    /// Further QEMU arguments: devices, NUMA nodes.
    pub qemu: &'static [&'static str],
    /// Whether systemd is its first process.
    pub systemd: bool,
}

impl VmSpec {
    /// Two CPUs and a gigabyte of memory; the other specifications state their differences.
    pub const PLAIN: Self = Self { cpus: 2, memory_mib: 1024, qemu: &[], systemd: false };
}

/// Environment variable, set on the kernel's command line, with the arguments of the lab in the guest.
pub const ARGS: &str = "WHYSLOW_LAB_ARGS";

/// Returns whether this is a machine that the lab has started, and may change without undoing it.
pub fn is_guest() -> bool {
    fs::read_to_string("/proc/cmdline").is_ok_and(|line| line.contains(ARGS))
}
