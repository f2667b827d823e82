//! Hardware: the machine, versions of firmware and drivers, disk settings, and limits
//! (Documentation/ABI/testing/sysfs-firmware-dmi-tables, sysfs-block, sysfs-class-nvme, sysfs-module; proc(5)).

use super::kernel::selected;
use super::units::services;
use super::{Section, Things};
use crate::kernel::{one_line, read_machine};
use crate::net::driver_and_firmware;
use crate::root::Root;
use crate::source_error::SourceError;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// DMI strings; serial numbers and UUIDs are not among them.
const DMI: [(&str, &[&str]); 3] = [
    ("bios", &["bios_vendor", "bios_version", "bios_date"]),
    ("model", &["product_name"]),
    ("vendor", &["sys_vendor"]),
];
/// Queue settings of a disk that administrators change.
const OF_A_QUEUE: [&str; 11] = [
    "io_poll",
    "logical_block_size",
    "max_sectors_kb",
    "nomerges",
    "nr_requests",
    "physical_block_size",
    "read_ahead_kb",
    "rotational",
    "rq_affinity",
    "wbt_lat_usec",
    "write_cache",
];
/// Limits of control groups, which are `max` unless configured.
const OF_A_GROUP: [&str; 3] = ["cpu.max", "memory.high", "memory.max"];
const KIB_PER_GIB: u64 = 1 << 20;

pub(super) struct Hardware;

impl Section for Hardware {
    fn pause(&self) -> u32 {
        5
    }

    fn read(&mut self, root: &Root) -> Result<Option<(Things, Option<i64>)>, SourceError> {
        let mut things = Things::default();
        machine(root, &mut things);
        firmware(root, &mut things);
        drivers(root, &mut things);
        disks(root, &mut things);
        limits(root, &mut things);
        Ok(Some((things, None)))
    }
}

fn machine(root: &Root, things: &mut Things) {
    let kind = Name::from("machine");
    for (name, files) in DMI {
        let words = files.iter().filter_map(|file| root.word(&format!("sys/class/dmi/id/{file}")));
        let words = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        if !words.is_empty() {
            things.add(&kind, name, words);
        }
    }
    let mut read = Snapshot::default();
    // Cannot fail: values that cannot be read are absent.
    let _ = read_machine(root, &mut read);
    for machine in &read.kernel.machine {
        let words = [
            ("cpu", machine.processor.get()),
            ("microcode", machine.microcode.get()),
            ("virtualisation", machine.virtualization.get()),
        ];
        for (name, value) in words {
            if let Some(value) = value {
                things.add(&kind, name, value);
            }
        }
        if let Some(count) = machine.processors.get() {
            things.add(&kind, "cpus", count.to_string());
        }
    }
    if let Some(kib) = root.maybe("proc/meminfo").as_deref().and_then(total_kib) {
        things.add(&kind, "memory", memory(kib));
    }
}

fn total_kib(meminfo: &str) -> Option<u64> {
    meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.split_whitespace().next()?.parse().ok()
}

/// Rounds a size of memory, because the kernel's reservation differs between versions.
fn memory(kib: u64) -> String {
    match kib.div_ceil(KIB_PER_GIB) {
        0 | 1 => format!("{} MiB", (kib >> 10).next_multiple_of(64)),
        gib => format!("{gib} GiB"),
    }
}

fn firmware(root: &Root, things: &mut Things) {
    let kind = Name::from("firmware");
    for controller in root.list("sys/class/nvme") {
        of_device(root, things, &kind, &format!("sys/class/nvme/{controller}"), "firmware_rev");
    }
    for disk in root.list("sys/block") {
        of_device(root, things, &kind, &format!("sys/block/{disk}/device"), "rev");
    }
    // Interfaces of containers are in other namespaces and have no firmware.
    for interface in root.list("sys/class/net").into_iter().filter(|_| root.is_live()) {
        if let Some((driver, version)) = driver_and_firmware(&interface) {
            things.add(&kind, &driver, version);
        }
    }
}

fn of_device(root: &Root, things: &mut Things, kind: &Name, folder: &str, file: &str) {
    if let Some(model) = root.word(&format!("{folder}/model")).filter(|model| !model.is_empty()) {
        things.add_word(kind, &one_line(&model), root, &format!("{folder}/{file}"));
    }
}

/// Lists modules with a version of their own; the others are as old as the kernel.
fn drivers(root: &Root, things: &mut Things) {
    let kind = Name::from("driver");
    for module in root.list("sys/module") {
        things.add_word(&kind, &module, root, &format!("sys/module/{module}/version"));
    }
}

/// Lists disks by model or driver, because another machine's disks have other names. A block device without a device below it
/// (loop, zram, dm) is not a disk.
fn disks(root: &Root, things: &mut Things) {
    let kind = Name::from("disk");
    for disk in root.list("sys/block") {
        let device = format!("sys/block/{disk}/device");
        let model = root.word(&format!("{device}/model")).filter(|model| !model.is_empty());
        let driver = || Some(root.link(&format!("{device}/driver"))?.rsplit('/').next()?.to_owned());
        let Some(model) = model.map(|model| one_line(&model)).or_else(driver) else { continue };
        let file = |name: &str| format!("sys/block/{disk}/queue/{name}");
        if let Some(scheduler) = root.word(&file("scheduler")).filter(|text| !text.is_empty()) {
            things.add(&kind, &format!("{model} scheduler"), selected(&scheduler));
        }
        for name in OF_A_QUEUE {
            things.add_word(&kind, &format!("{model} {name}"), root, &file(name));
        }
    }
}

/// Lists the limits of the first process, which others inherit unless they have their own, and those set on services.
fn limits(root: &Root, things: &mut Things) {
    let kind = Name::from("limit");
    for (name, value) in of_process(&root.maybe("proc/1/limits").unwrap_or_default()) {
        things.add(&kind, name, value);
    }
    for service in services(root) {
        for file in OF_A_GROUP {
            let limit = root.word(&format!("{}/{file}", service.path));
            if let Some(limit) = limit.filter(|limit| !limit.is_empty() && !limit.starts_with("max")) {
                things.add(&kind, &format!("{} {file}", service.name), limit);
            }
        }
    }
}

/// Parses soft and hard limits by name: `Max open files   1024   4096   files` becomes `open files`, `1024:4096`.
fn of_process(limits: &str) -> Vec<(&str, String)> {
    limits.lines().filter_map(of_line).collect()
}

fn of_line(line: &str) -> Option<(&str, String)> {
    // The names contain spaces, and two or more spaces follow them.
    let (name, rest) = line.strip_prefix("Max ")?.split_once("  ")?;
    let mut values = rest.split_whitespace();
    Some((name, format!("{}:{}", values.next()?, values.next()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CapturedTree, never_panics};

    fn read(files: &[(&str, &str)]) -> Vec<String> {
        let tree = CapturedTree::with_files(files);
        let (things, _) = Hardware.read(&tree.root()).unwrap().unwrap();
        things.joined().into_iter().map(|(thing, value)| format!("{thing} = {value}")).collect()
    }

    #[test]
    fn disks_of_one_model_are_one_thing_and_serial_numbers_none() {
        let found = read(&[
            ("sys/class/nvme/nvme0/model", "Fast 1000   \n"),
            ("sys/class/nvme/nvme0/firmware_rev", "2B\n"),
            ("sys/class/nvme/nvme0/serial", "S3CR3T\n"),
            ("sys/class/nvme/nvme1/model", "Fast 1000\n"),
            ("sys/class/nvme/nvme1/firmware_rev", "1B\n"),
            ("sys/block/sda/device/model", "Disk\n"),
            ("sys/block/sda/device/rev", "0001\n"),
            ("sys/block/sda/queue/scheduler", "none [bfq] mq-deadline\n"),
            ("sys/block/sda/queue/nr_requests", "64\n"),
            ("sys/block/loop0/queue/nr_requests", "128\n"),
            ("sys/module/zfs/version", "2.1.11-1\n"),
            ("sys/module/ext4/refcnt", "1\n"),
        ]);
        assert_eq!(
            found,
            [
                "disk Disk nr_requests = 64",
                "disk Disk scheduler = bfq",
                "driver zfs = 2.1.11-1",
                "firmware Disk = 0001",
                "firmware Fast 1000 = 1B, 2B",
            ]
        );
    }

    #[test]
    fn the_machine_is_described_in_words_that_other_machines_share() {
        let found = read(&[
            ("sys/class/dmi/id/sys_vendor", "Maker\n"),
            ("sys/class/dmi/id/product_name", "Model 7\n"),
            ("sys/class/dmi/id/product_serial", "S3CR3T\n"),
            ("sys/class/dmi/id/bios_version", "1.2\n"),
            ("proc/cpuinfo", "model name\t: CPU\nmicrocode\t: 0x1\nflags\t\t: fpu hypervisor\n\n"),
            ("sys/devices/system/cpu/online", "0-3\n"),
            ("proc/meminfo", "MemTotal:       16123456 kB\n"),
            ("proc/1/limits", "Limit    Soft Limit    Hard Limit    Units\nMax open files    1024    4096    files\n"),
            ("sys/fs/cgroup/system.slice/shop.service/memory.max", "1048576\n"),
            ("sys/fs/cgroup/system.slice/shop.service/cpu.max", "max 100000\n"),
        ]);
        assert_eq!(
            found,
            [
                "limit open files = 1024:4096",
                "limit shop.service memory.max = 1048576",
                "machine bios = 1.2",
                "machine cpu = CPU",
                "machine cpus = 4",
                "machine memory = 16 GiB",
                "machine microcode = 0x1",
                "machine model = Model 7",
                "machine vendor = Maker",
                "machine virtualisation = vm",
            ]
        );
    }

    #[test]
    fn memory_is_rounded_up() {
        let gib = 1 << 20;
        assert_eq!([16 * gib, 16 * gib - 300_000, gib].map(memory), ["16 GiB", "16 GiB", "1024 MiB"]);
        assert_eq!(memory(500 * 1024), "512 MiB");
    }

    #[test]
    fn limits_have_names_with_blanks() {
        let text = "Max cpu time              unlimited            unlimited            seconds   \n\
                    Max realtime timeout      0                    1                    us        \nMax x\n";
        let expected = [("cpu time", "unlimited:unlimited"), ("realtime timeout", "0:1")];
        assert_eq!(of_process(text), expected.map(|(name, value)| (name, value.to_owned())));
        never_panics(text, |text| drop(of_process(text)));
    }
}
