//! /sys/block/*/queue and device: a device's queue, geometry and identity (Documentation/ABI/stable/sysfs-block,
//! Documentation/block/queue-sysfs.rst; sysfs-devices of SCSI in Documentation/scsi).

use super::device::{self, SECTOR};
use crate::source::Tempo;
use crate::text::chosen;
use crate::{Miss, Root, Source};
use std::collections::HashMap;
use whyslow_model::catalogue::Queue;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::{Gauge, State};

const KIB: u64 = 1024;
const NS_PER_US: u64 = 1000;

/// The source of family `queue`.
#[derive(Default)]
pub(super) struct Queues {
    /// The serial numbers, by name of the disk.
    serials: HashMap<String, Serial>,
}

/// What a disk answered when it was asked for its serial number. To ask may be a request to the device (virtio), for which one
/// that hangs lets us wait: each is asked once.
struct Serial {
    /// The kernel's number of the disk, which no other one has had since boot (from Linux 5.15).
    disk: String,
    number: Option<String>,
}

impl Source for Queues {
    fn name(&self) -> &'static str {
        "sys/block/queue"
    }

    fn tells(&self) -> &'static str {
        "queue settings, geometry and model of disks"
    }

    fn tempo(&self) -> Tempo {
        Tempo::Slow
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let disks = device::disks(root);
        if disks.is_empty() {
            return Err(Miss::Absent("/sys/block has no devices".into()));
        }
        let mut asked = std::mem::take(&mut self.serials);
        for disk in disks {
            let folder = format!("sys/block/{disk}");
            let serial = Serial::of(root, &folder, asked.remove(&disk));
            let queue = of_disk(root, &folder, &disk);
            out.block.queue.push(Queue { serial: state(serial.number.as_deref()), ..queue });
            for partition in device::partitions(root, &disk) {
                out.block.queue.push(of_partition(root, &format!("{folder}/{partition}"), &partition));
            }
            self.serials.insert(disk, serial);
        }
        Ok(())
    }
}

impl Serial {
    /// What was answered before, where it was the same disk that answered.
    fn of(root: &Root, folder: &str, before: Option<Self>) -> Self {
        let disk = word(root, folder, "diskseq").unwrap_or_default();
        match before {
            Some(before) if before.disk == disk && !disk.is_empty() => before,
            _ => Self { disk, number: serial(root, folder) },
        }
    }
}

/// What a partition has of its own; its queue is the disk's.
fn of_partition(root: &Root, folder: &str, name: &str) -> Queue {
    Queue {
        alignment_offset: gauge(root, folder, "alignment_offset", 1),
        size: gauge(root, folder, "size", SECTOR),
        ..Queue::new(device::kernel_name(name).into())
    }
}

fn of_disk(root: &Root, folder: &str, name: &str) -> Queue {
    let number = |file: &str, scale| gauge(root, folder, file, scale);
    Queue {
        scheduler: state(word(root, folder, "queue/scheduler").as_deref().map(|s| chosen(s).unwrap_or(s))),
        rotational: number("queue/rotational", 1),
        nr_requests: number("queue/nr_requests", 1),
        max_request: number("queue/max_sectors_kb", KIB),
        max_hw_request: number("queue/max_hw_sectors_kb", KIB),
        read_ahead: number("queue/read_ahead_kb", KIB),
        logical_block: number("queue/logical_block_size", 1),
        physical_block: number("queue/physical_block_size", 1),
        minimum_io: number("queue/minimum_io_size", 1),
        optimal_io: number("queue/optimal_io_size", 1),
        write_cache: state(word(root, folder, "queue/write_cache").as_deref()),
        wbt_latency: number("queue/wbt_lat_usec", NS_PER_US),
        hardware_queues: hardware_queues(root, folder),
        device_depth: number("device/queue_depth", 1),
        model: state(model(root, folder).as_deref()),
        firmware: state(firmware(root, folder).as_deref()),
        state: state(word(root, folder, "device/state").as_deref()),
        address: state(root.link(&format!("{folder}/device")).as_deref().and_then(scsi_address)),
        ..of_partition(root, folder, name)
    }
}

/// A device that is driven by bios alone (dm, md, zram) has no folder `mq`, and no hardware queues to count.
fn hardware_queues(root: &Root, folder: &str) -> Gauge {
    match root.list(&format!("{folder}/mq")).len() {
        0 => Gauge::ABSENT,
        queues => (queues as u64).into(),
    }
}

/// Vendor and model as SCSI has them, or the model alone (NVMe). The vendor of a virtio disk is a PCI number, and no
/// model follows it: that is no name.
fn model(root: &Root, folder: &str) -> Option<String> {
    let model = word(root, folder, "device/model")?;
    Some(match word(root, folder, "device/vendor") {
        Some(vendor) => format!("{vendor} {model}"),
        None => model,
    })
}

/// The serial number: as virtio and NVMe have it, or the unit serial number page of a SCSI disk, four bytes of header, then
/// text (SPC-4, 7.8.15).
fn serial(root: &Root, folder: &str) -> Option<String> {
    let page = || {
        let page = std::fs::read(root.at(format!("{folder}/device/vpd_pg80"))).ok()?;
        let text = String::from_utf8_lossy(page.get(4..)?).trim_matches(['\0', ' ']).to_owned();
        (!text.is_empty()).then_some(text)
    };
    word(root, folder, "serial").or_else(|| word(root, folder, "device/serial")).or_else(page)
}

/// Where NVMe and SCSI have it.
fn firmware(root: &Root, folder: &str) -> Option<String> {
    word(root, folder, "device/firmware_rev").or_else(|| word(root, folder, "device/rev"))
}

/// `host:channel:target:lun`, the last part of where a SCSI disk's `device` points; `None` for other devices.
fn scsi_address(target: &str) -> Option<&str> {
    let last = target.rsplit('/').next()?;
    let numbers = last.split(':').filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())).count();
    (numbers == 4 && last.matches(':').count() == 3).then_some(last)
}

/// The number in a file of a device, scaled to the base unit.
fn gauge(root: &Root, folder: &str, file: &str, scale: u64) -> Gauge {
    root.number(&format!("{folder}/{file}")).map_or(Gauge::ABSENT, |n| n.saturating_mul(scale).into())
}

/// The words in a file of a device; `None` where they are none.
fn word(root: &Root, folder: &str, file: &str) -> Option<String> {
    root.word(&format!("{folder}/{file}")).filter(|w| !w.is_empty())
}

fn state(words: Option<&str>) -> State {
    words.map_or_else(State::default, State::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::fixture::Tree;
    use proptest::prelude::*;

    fn read(root: &Root) -> Vec<Queue> {
        let mut s = Snapshot::default();
        Queues::default().read(root, &mut s).unwrap();
        s.block.queue
    }

    #[test]
    fn a_scsi_disk_and_its_partition() {
        let tree = Tree::of(&[
            ("sys/block/sda/size", "2048\n"),
            ("sys/block/sda/alignment_offset", "0\n"),
            ("sys/block/sda/queue/scheduler", "none [mq-deadline] kyber\n"),
            ("sys/block/sda/queue/rotational", "1\n"),
            ("sys/block/sda/queue/max_sectors_kb", "1280\n"),
            ("sys/block/sda/queue/wbt_lat_usec", "75000\n"),
            ("sys/block/sda/queue/write_cache", "write back\n"),
            ("sys/block/sda/mq/0/cpu_list", "0\n"),
            ("sys/block/sda/mq/1/cpu_list", "1\n"),
            ("sys/devices/0:0:1:0/vendor", "ATA     \n"),
            ("sys/devices/0:0:1:0/model", "ST4000NM0035    \n"),
            ("sys/devices/0:0:1:0/vpd_pg80", "\0\0\0\u{8}ZC10ABCD"),
            ("sys/devices/0:0:1:0/queue_depth", "32\n"),
            ("sys/devices/0:0:1:0/state", "running\n"),
            ("sys/block/sda/sda1/partition", "1\n"),
            ("sys/block/sda/sda1/size", "1024\n"),
            ("sys/block/sda/sda1/alignment_offset", "3584\n"),
        ]);
        tree.link("sys/block/sda/device", "../../devices/0:0:1:0");
        let rows = read(&tree.root());
        let (disk, partition) = (&rows[0], &rows[1]);
        assert_eq!(disk.scheduler.get(), Some("mq-deadline"));
        assert_eq!(disk.rotational.get(), Some(1.0));
        assert_eq!(disk.max_request.get(), Some(1_310_720.0));
        assert_eq!(disk.wbt_latency.get(), Some(75e6));
        assert_eq!(disk.write_cache.get(), Some("write back"));
        assert_eq!(disk.hardware_queues.get(), Some(2.0));
        assert_eq!(disk.device_depth.get(), Some(32.0));
        assert_eq!(disk.model.get(), Some("ATA ST4000NM0035"));
        assert_eq!(disk.serial.get(), Some("ZC10ABCD"));
        assert_eq!(disk.state.get(), Some("running"));
        assert_eq!(disk.address.get(), Some("0:0:1:0"));
        assert_eq!(disk.size.get(), Some(1_048_576.0));
        assert_eq!(disk.optimal_io.get(), None);
        assert_eq!(&*partition.device, "sda1");
        assert_eq!((partition.alignment_offset.get(), partition.size.get()), (Some(3584.0), Some(524_288.0)));
        assert_eq!(partition.scheduler.get(), None);
    }

    #[test]
    fn a_disk_is_asked_once_for_its_serial_number_and_another_of_that_name_again() {
        let tree = Tree::of(&[("sys/block/vda/size", "2048\n")]);
        let mut queues = Queues::default();
        let mut serial = |disk: Option<&str>, number: &str| {
            disk.into_iter().for_each(|disk| tree.write("sys/block/vda/diskseq", disk));
            tree.write("sys/block/vda/serial", number);
            let mut out = Snapshot::default();
            queues.read(&tree.root(), &mut out).unwrap();
            out.block.queue[0].serial.get().map(str::to_owned)
        };
        // Before Linux 5.15 disks have no number.
        assert_eq!(serial(None, "A\n").as_deref(), Some("A"));
        assert_eq!(serial(None, "B\n").as_deref(), Some("B"));
        assert_eq!(serial(Some("7\n"), "C\n").as_deref(), Some("C"));
        assert_eq!(serial(Some("7\n"), "D\n").as_deref(), Some("C"));
        assert_eq!(serial(Some("8\n"), "").as_deref(), None);
        assert_eq!(serial(Some("8\n"), "E\n").as_deref(), None);
    }

    #[test]
    fn only_four_numbers_are_a_scsi_address() {
        assert_eq!(scsi_address("../../../2:0:0:1"), Some("2:0:0:1"));
        assert_eq!(scsi_address("../../../virtio1"), None);
        assert_eq!(scsi_address("../0000:00:1f.2"), None);
        assert_eq!(scsi_address("1:2:3:4:"), None);
    }

    #[test]
    fn the_disks_of_this_machine_have_block_sizes() {
        let rows = read(&Root::live());
        assert!(rows.iter().any(|q| q.logical_block.get().is_some_and(|b| b >= 512.0) && q.scheduler.get().is_some()));
    }

    proptest! {
        #[test]
        fn any_word_is_survived(text in "[\\[\\]a-z0-9:/ ]{0,30}|.*") {
            let _ = chosen(&text).unwrap_or(&text);
            let _ = scsi_address(&text);
        }
    }
}
