//! Functions of our own: values that depend on the machine. Each documents its basis in `profiles/`.

use crate::amount;
use crate::instances;
use crate::machine::{Machine, meminfo};
use whyslow_sense::Root;

/// Assumed write throughput of a disk, bytes per second: rotational, and other.
const ROTATIONAL: u64 = 100 << 20;
const SOLID: u64 = 400 << 20;

/// Calls a function; returns `None` if there is none of that name, or if it has no result.
pub(super) fn call(machine: &Machine, name: &str, arguments: &[&str]) -> Option<String> {
    let root = machine.root();
    let value = match (name, arguments) {
        ("memory_share", [percent]) => memory(root)? / 100 * whole(percent)?,
        ("memory_share", [percent, most]) => (memory(root)? / 100 * whole(percent)?).min(bytes(most)?),
        ("memory_pages", []) => memory(root)? / page_size(),
        ("write_seconds", [seconds, most]) => {
            (slowest_disk(root)? * whole(seconds)?).min(memory(root)? / 100 * whole(most)?)
        }
        // Bandwidth times round-trip time, plus half of it: part of the buffer is overhead (tcp_adv_win_scale).
        ("bandwidth_delay", [milliseconds, least, most]) => {
            let (least, milliseconds) = (bytes(least)?, whole(milliseconds)?);
            let most = bytes(most)?.max(least);
            // If no link reports its speed, nothing follows from it, and the lower bound, which suits every link, is used.
            let window = |speed: u64| (speed / 8 / 1000).saturating_mul(milliseconds) / 2 * 3;
            fastest_link(root).map_or(least, |speed| window(speed).clamp(least, most))
        }
        ("database_hugepages", []) => {
            let shared = database_memory(root);
            if shared == 0 { root.number("proc/sys/vm/nr_hugepages")? } else { shared.div_ceil(huge_page(root)?) }
        }
        _ => return None,
    };
    Some(value.to_string())
}

/// Whether this is a virtual machine.
pub(super) fn is_guest(machine: &Machine) -> bool {
    let root = machine.root();
    let has_flag = |text: String| {
        text.lines().any(|line| line.starts_with("flags") && line.split(' ').any(|flag| flag == "hypervisor"))
    };
    root.at("sys/hypervisor/type").exists() || root.maybe("proc/cpuinfo").is_some_and(has_flag)
}

fn whole(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

fn bytes(text: &str) -> Option<u64> {
    u64::try_from(amount::parse(text, "bytes").ok()?).ok()
}

fn page_size() -> u64 {
    u64::try_from(amount::page_size()).unwrap_or(4096)
}

/// Returns the memory of the machine, in bytes.
pub(super) fn memory(root: &Root) -> Option<u64> {
    meminfo(root, "MemTotal")
}

fn huge_page(root: &Root) -> Option<u64> {
    meminfo(root, "Hugepagesize").filter(|size| *size > 0)
}

/// Returns the bytes per second that the slowest disk in use writes, by its kind; ignores disks that do not report their kind.
fn slowest_disk(root: &Root) -> Option<u64> {
    let disks = root.list("sys/block").into_iter().filter(|name| root.at(format!("sys/block/{name}/device")).exists());
    let speed = |name: String| match root.number(&format!("sys/block/{name}/queue/rotational"))? {
        0 => Some(SOLID),
        _ => Some(ROTATIONAL),
    };
    disks.filter_map(speed).min()
}

/// Returns the speed of the fastest link that reports one, in bit/s; `None` if none does (-1:
/// Documentation/ABI/testing/sysfs-class-net). Virtual interfaces report made-up speeds (veth: 10 Gbit/s, tun: 10 Mbit/s) and are
/// ignored; a bond adds up its members.
fn fastest_link(root: &Root) -> Option<u64> {
    let is_real = |name: &String| {
        ["device", "bonding"].iter().any(|part| root.at(format!("sys/class/net/{name}/{part}")).exists())
    };
    let speed = |name: String| root.number(&format!("sys/class/net/{name}/speed"));
    let speeds = root.list("sys/class/net").into_iter().filter(is_real).filter_map(speed);
    let known = speeds.filter(|megabits| *megabits > 0 && *megabits < u64::from(u32::MAX));
    known.max().map(|megabits| megabits.saturating_mul(1_000_000))
}

/// Returns the shared memory of databases: System V segments (Oracle; sysvipc(7)), and PostgreSQL's anonymous mapping.
fn database_memory(root: &Root) -> u64 {
    let text = root.maybe("proc/sysvipc/shm").unwrap_or_default();
    let segments = text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
    let postgres = running(root, &["postgres", "postmaster"]).into_iter().map(|pid| largest_shared(root, &pid)).max();
    segments.sum::<u64>().max(postgres.unwrap_or(0))
}

/// Lists the PIDs of the processes whose names match one of these patterns.
pub(super) fn running(root: &Root, names: &[&str]) -> Vec<String> {
    let is_process = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
    let is_named = |pid: &String| {
        root.word(&format!("proc/{pid}/comm"))
            .is_some_and(|comm| names.iter().any(|name| instances::matches_pattern(name, &comm)))
    };
    root.list("proc").into_iter().filter(is_process).filter(is_named).collect()
}

/// Returns the size of the largest shared anonymous mapping of a process, in bytes: it appears as a deleted /dev/zero
/// (proc_pid_maps(5)).
fn largest_shared(root: &Root, pid: &str) -> u64 {
    let text = root.maybe(&format!("proc/{pid}/maps")).unwrap_or_default();
    let size = |line: &str| {
        let (from, rest) = line.split_once('-')?;
        let (to, _) = rest.split_once(' ')?;
        u64::from_str_radix(to, 16).ok()?.checked_sub(u64::from_str_radix(from, 16).ok()?)
    };
    text.lines().filter(|line| line.ends_with("/dev/zero (deleted)")).filter_map(size).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::{tree, write};

    #[test]
    fn values_follow_from_the_machine() {
        let (folder, machine) = tree(&[
            ("proc/meminfo", "MemTotal:       16777216 kB\nHugepagesize:       2048 kB\n"),
            ("sys/block/sda/device/x", ""),
            ("sys/block/sda/queue/rotational", "1\n"),
            ("sys/block/nvme0n1/device/x", ""),
            ("sys/block/nvme0n1/queue/rotational", "0\n"),
            ("sys/class/net/eth0/speed", "10000\n"),
            ("sys/class/net/eth0/device/x", ""),
            ("sys/class/net/eth1/device/x", ""),
            ("sys/class/net/veth0/speed", "40000\n"),
            ("sys/class/net/eth1/speed", "-1\n"),
            ("proc/sysvipc/shm", "key shmid perms size\n 0 1 600 1073741824\n 0 2 600 4096\n"),
            ("proc/7/comm", "postgres\n"),
            ("proc/7/maps", "7f0000000000-7f0020000000 rw-s 00000000 00:01 1  /dev/zero (deleted)\n"),
        ]);
        let of = |name: &str, arguments: &[&str]| call(&machine, name, arguments);
        assert_eq!(of("memory_share", &["5", "256MiB"]).as_deref(), Some("268435456"));
        assert_eq!(of("memory_pages", &[]).as_deref(), Some("4194304"));
        assert_eq!(of("write_seconds", &["2", "10"]).as_deref(), Some("209715200"));
        // 10 Gbit/s for 10 ms are 12.5 MB; plus half of it.
        assert_eq!(of("bandwidth_delay", &["10", "1MiB", "64MiB"]).as_deref(), Some("18750000"));
        // An unknown speed is not used.
        for unknown in ["-1\n", "0\n", "4294967295\n"] {
            write(&folder, "sys/class/net/eth0/speed", unknown);
            assert_eq!(of("bandwidth_delay", &["100", "16MiB", "256MiB"]).as_deref(), Some("16777216"), "{unknown}");
        }
        assert_eq!(of("database_hugepages", &[]).as_deref(), Some("513"));
        assert_eq!(of("nosuch", &[]), None);
    }
}
