//! /sys/block/*/queue and device: queue, geometry and identity of a disk, and the start of each partition
//! (Documentation/ABI/stable/sysfs-block, Documentation/block/queue-sysfs.rst; sysfs-devices of SCSI in Documentation/scsi).

use super::adapter::Adapter;
use super::device::{self, SECTOR};
use crate::source::SourceInfo;
use crate::text::chosen;
use crate::{Root, Source, SourceError};
use std::collections::HashMap;
use whyslow_model::catalogue::{Partition, Queue};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Gauge;

const KIB: u64 = 1024;
const NS_PER_US: u64 = 1000;

#[derive(Default)]
pub(super) struct DiskQueues {
    /// By disk name.
    identities: HashMap<String, Identity>,
}

/// A disk's serial number and world wide name. They are read once, because reading them can be a request to the device (virtio)
/// and hangs if the device does.
struct Identity {
    /// Unique since boot (from Linux 5.15).
    diskseq: String,
    serial: Option<String>,
    wwn: Option<String>,
}

impl Source for DiskQueues {
    fn info(&self) -> SourceInfo {
        SourceInfo::new("sys/block/queue", "queue settings, geometry and model of disks").slow()
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        let disks = device::disks(root);
        if disks.is_empty() {
            return Err(SourceError::Absent("/sys/block has no devices".into()));
        }
        let mut before = std::mem::take(&mut self.identities);
        for disk in disks {
            let folder = format!("sys/block/{disk}");
            let identity = Identity::read(root, &folder, before.remove(&disk));
            let queue = of_disk(root, &folder, &disk);
            let (serial, wwn) = (identity.serial.as_deref().into(), identity.wwn.as_deref().into());
            out.block.queue.push(Queue { serial, wwn, ..queue });
            for partition in device::partitions(root, &disk) {
                let folder = format!("{folder}/{partition}");
                let row = of_partition(root, &folder, &partition);
                let start = gauge(root, &folder, "start", SECTOR);
                if row.size.get().is_none_or(|bytes| bytes > EXTENDED) {
                    out.block.partition.push(Partition { device: row.device.clone(), start });
                }
                out.block.queue.push(row);
            }
            self.identities.insert(disk, identity);
        }
        Ok(())
    }
}

impl Identity {
    /// Returns the previous identity if it belongs to the same disk; reads it otherwise.
    fn read(root: &Root, folder: &str, before: Option<Self>) -> Self {
        let diskseq = word(root, folder, "diskseq").unwrap_or_default();
        match before {
            Some(before) if before.diskseq == diskseq && !diskseq.is_empty() => before,
            _ => Self { diskseq, serial: serial(root, folder), wwn: wwn(root, folder) },
        }
    }
}

/// Size that the kernel gives extended partitions, in bytes, so that no data is stored in them (block/partitions/msdos.c).
const EXTENDED: f64 = 1024.0;

/// Describes a partition, which uses the queue of its disk.
fn of_partition(root: &Root, folder: &str, name: &str) -> Queue {
    Queue {
        alignment_offset: gauge(root, folder, "alignment_offset", 1),
        size: gauge(root, folder, "size", SECTOR),
        ..Queue::new(device::kernel_name(name).into())
    }
}

fn of_disk(root: &Root, folder: &str, name: &str) -> Queue {
    let number = |file: &str, scale| gauge(root, folder, file, scale);
    let adapter = Adapter::read(root, folder);
    Queue {
        scheduler: word(root, folder, "queue/scheduler").as_deref().map(|s| chosen(s).unwrap_or(s)).into(),
        rotational: number("queue/rotational", 1),
        nr_requests: number("queue/nr_requests", 1),
        max_request: number("queue/max_sectors_kb", KIB),
        max_hw_request: number("queue/max_hw_sectors_kb", KIB),
        read_ahead: number("queue/read_ahead_kb", KIB),
        logical_block: number("queue/logical_block_size", 1),
        physical_block: number("queue/physical_block_size", 1),
        minimum_io: number("queue/minimum_io_size", 1),
        optimal_io: number("queue/optimal_io_size", 1),
        write_cache: word(root, folder, "queue/write_cache").into(),
        wbt_latency: number("queue/wbt_lat_usec", NS_PER_US),
        hardware_queues: hardware_queues(root, folder),
        device_depth: number("device/queue_depth", 1),
        model: model(root, folder).into(),
        firmware: firmware(root, folder).into(),
        state: state(root, folder).into(),
        address: root.link(&format!("{folder}/device")).as_deref().and_then(scsi_address).into(),
        max_segments: number("queue/max_segments", 1),
        chunk: number("queue/chunk_sectors", SECTOR),
        bus: adapter.bus.into(),
        adapter: adapter.name.into(),
        driver: adapter.driver.into(),
        transport: adapter.transport.into(),
        adapter_depth: adapter.depth.into(),
        numa_node: adapter.numa_node.into(),
        link_speed: adapter.link_speed.into(),
        rotation_rate: rotation_rate(root, folder).into(),
        ..of_partition(root, folder, name)
    }
}

/// Counts the hardware queues. A bio-based device (dm, md, zram) has no directory `mq` and none of them.
fn hardware_queues(root: &Root, folder: &str) -> Gauge {
    Some(root.list(&format!("{folder}/mq")).len() as u64).filter(|queues| *queues > 0).into()
}

/// Reads the state of a SCSI device or of an NVMe controller. A disk with several NVMe controllers has a subsystem as its device;
/// the state is `live` if any controller is live.
fn state(root: &Root, folder: &str) -> Option<String> {
    word(root, folder, "device/state").or_else(|| {
        let mut controllers = root.list(&format!("{folder}/device"));
        controllers.retain(|name| name.starts_with("nvme"));
        let states = controllers.iter().filter_map(|name| word(root, folder, &format!("device/{name}/state")));
        states.reduce(|one, other| if other == "live" { other } else { one })
    })
}

/// Reads vendor and model (SCSI), or the model alone (NVMe). A virtio disk has a PCI number as vendor and no model, hence no
/// name.
fn model(root: &Root, folder: &str) -> Option<String> {
    let model = word(root, folder, "device/model")?;
    Some(match word(root, folder, "device/vendor") {
        Some(vendor) => format!("{vendor} {model}"),
        None => model,
    })
}

/// Reads the serial number from virtio or NVMe, or from the unit serial number page of a SCSI disk: a header of four bytes, then
/// text (SPC-4, 7.8.15).
fn serial(root: &Root, folder: &str) -> Option<String> {
    let page = || {
        let page = std::fs::read(root.at(format!("{folder}/device/vpd_pg80"))).ok()?;
        let text = String::from_utf8_lossy(page.get(4..)?).trim_matches(['\0', ' ']).to_owned();
        (!text.is_empty()).then_some(text)
    };
    word(root, folder, "serial").or_else(|| word(root, folder, "device/serial")).or_else(page)
}

/// Reads the world wide name of an NVMe or SCSI disk: `naa.5000c500a1b2c3d4`, `eui.0025385b71b0a1b2`; other kinds are not unique.
fn wwn(root: &Root, folder: &str) -> Option<String> {
    let text = word(root, folder, "wwid").or_else(|| word(root, folder, "device/wwid"))?;
    let digits = text.strip_prefix("naa.").or_else(|| text.strip_prefix("eui."))?;
    Some(digits.to_ascii_lowercase())
}

/// Reads revolutions per minute, 1 for non-rotating media: from the block device characteristics of a SCSI disk (SBC-4, 6.6.2),
/// or word 217 of the identification of an ATA disk behind a SCSI command set (SAT-4, 12.4.2; ACS-4, 7.13.6). Other values are
/// reserved.
fn rotation_rate(root: &Root, folder: &str) -> Option<u64> {
    let page = |name: &str| std::fs::read(root.at(format!("{folder}/device/{name}"))).ok();
    let at = |page: &[u8], offset: usize| Some([*page.get(offset)?, *page.get(offset + 1)?]);
    let scsi = page("vpd_pgb1").and_then(|page| Some(u16::from_be_bytes(at(&page, 4)?)));
    let is_rate = |rate: &u16| *rate == 1 || (0x0401..0xffff).contains(rate);
    let ata = || page("vpd_pg89").and_then(|page| Some(u16::from_le_bytes(at(&page, 60 + 2 * 217)?)));
    scsi.filter(is_rate).or_else(|| ata().filter(is_rate)).map(u64::from)
}

/// Reads the firmware revision of an NVMe or SCSI disk.
fn firmware(root: &Root, folder: &str) -> Option<String> {
    word(root, folder, "device/firmware_rev").or_else(|| word(root, folder, "device/rev"))
}

/// Returns `host:channel:target:lun`, the last part of the target of a SCSI disk's `device` link.
pub(super) fn scsi_address(target: &str) -> Option<&str> {
    let last = target.rsplit('/').next()?;
    let numbers = last.split(':').filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit())).count();
    (numbers == 4 && last.matches(':').count() == 3).then_some(last)
}

fn gauge(root: &Root, folder: &str, file: &str, scale: u64) -> Gauge {
    root.number(&format!("{folder}/{file}")).map(|n| n.saturating_mul(scale)).into()
}

/// Reads a one-line file. Returns `None` if it is missing or empty.
fn word(root: &Root, folder: &str, file: &str) -> Option<String> {
    root.word(&format!("{folder}/{file}")).filter(|w| !w.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CapturedTree, read};

    #[test]
    fn a_scsi_disk_and_its_partition_are_read_in_full() {
        let tree = CapturedTree::with_files(&[
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
            ("sys/devices/0:0:1:0/wwid", "naa.5000C500A1B2C3D4\n"),
            ("sys/devices/0:0:1:0/vpd_pgb1", "\0\u{31}\0\u{3c}\u{1c}\u{20}\0"),
            ("sys/devices/0:0:1:0/queue_depth", "32\n"),
            ("sys/devices/0:0:1:0/state", "running\n"),
            ("sys/block/sda/sda1/partition", "1\n"),
            ("sys/block/sda/sda1/start", "2048\n"),
            ("sys/block/sda/sda1/size", "1024\n"),
            ("sys/block/sda/sda1/alignment_offset", "3584\n"),
        ]);
        tree.link("sys/block/sda/device", "../../devices/0:0:1:0");
        let (outcome, s) = tree.read(&mut DiskQueues::default());
        assert_eq!(outcome, Ok(()));
        assert_eq!(s.block.partition[0].start.get(), Some(1_048_576.0));
        let rows = s.block.queue.clone();
        let (disk, partition) = (&rows[0], &rows[1]);
        assert_eq!(disk.scheduler.get(), Some("mq-deadline"));
        assert_eq!(disk.rotational.get(), Some(1.0));
        assert_eq!(disk.max_request.get(), Some(1_310_720.0));
        assert_eq!(disk.wbt_latency.get(), Some(75e6));
        assert_eq!(disk.write_cache.get(), Some("write back"));
        assert_eq!(disk.hardware_queues.get(), Some(2.0));
        assert_eq!(disk.device_depth.get(), Some(32.0));
        assert_eq!(disk.model.get(), Some("ATA ST4000NM0035"));
        assert_eq!((disk.serial.get(), disk.wwn.get()), (Some("ZC10ABCD"), Some("5000c500a1b2c3d4")));
        assert_eq!(disk.rotation_rate.get(), Some(7200.0));
        assert_eq!(disk.state.get(), Some("running"));
        assert_eq!(disk.address.get(), Some("0:0:1:0"));
        assert_eq!(disk.size.get(), Some(1_048_576.0));
        assert_eq!(disk.optimal_io.get(), None);
        assert_eq!(&*partition.device, "sda1");
        assert_eq!((partition.alignment_offset.get(), partition.size.get()), (Some(3584.0), Some(524_288.0)));
        assert_eq!(partition.scheduler.get(), None);
    }

    #[test]
    fn a_disk_with_several_controllers_is_live_if_one_of_them_is() {
        let tree = CapturedTree::with_files(&[
            ("sys/block/nvme0n1/size", "2048\n"),
            ("sys/block/nvme0n1/device/model", "Linux\n"),
            ("sys/block/nvme0n1/device/nvme0/state", "live\n"),
            ("sys/block/nvme0n1/device/nvme1/state", "connecting\n"),
        ]);
        let state = || tree.read(&mut DiskQueues::default()).1.block.queue[0].state.get().map(str::to_owned);
        assert_eq!(state().as_deref(), Some("live"));
        tree.write("sys/block/nvme0n1/device/nvme0/state", "connecting\n");
        assert_eq!(state().as_deref(), Some("connecting"));
    }

    #[test]
    fn a_serial_number_is_read_once_for_each_disk() {
        let tree = CapturedTree::with_files(&[("sys/block/vda/size", "2048\n")]);
        let mut queues = DiskQueues::default();
        let mut serial = |disk: Option<&str>, number: &str| {
            disk.into_iter().for_each(|disk| tree.write("sys/block/vda/diskseq", disk));
            tree.write("sys/block/vda/serial", number);
            let (_, out) = tree.read(&mut queues);
            out.block.queue[0].serial.get().map(str::to_owned)
        };
        // Linux before 5.15 has no diskseq.
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
    fn the_disks_of_the_live_machine_have_block_sizes() {
        let rows = read(&mut DiskQueues::default()).block.queue.clone();
        assert!(rows.iter().any(|q| q.logical_block.get().is_some_and(|b| b >= 512.0) && q.scheduler.get().is_some()));
    }
}
