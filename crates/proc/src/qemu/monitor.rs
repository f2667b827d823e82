//! Answers of QEMU's monitor to read-only queries (QMP: <https://www.qemu.org/docs/master/interop/qemu-qmp-ref.html>).

use super::limits::{IoLimits, LimitNames};
use serde_json::Value;
use whyslow_model::catalogue::{GuestDisk, GuestDiskIo, GuestMemory};
use whyslow_model::key::TaskKey;

const LIMITS: LimitNames = ["iops", "iops_rd", "iops_wr", "bps", "bps_rd", "bps_wr"];

/// Returns the number of each virtual CPU and its thread (`query-cpus-fast`).
pub fn cpu_threads(answer: &Value) -> Vec<(u64, u32)> {
    let cpu = |cpu: &Value| Some((cpu["cpu-index"].as_u64()?, u32::try_from(cpu["thread-id"].as_u64()?).ok()?));
    answer.as_array().into_iter().flatten().filter_map(cpu).collect()
}

/// Returns the memory that the balloon leaves the guest, in bytes (`query-balloon`).
pub fn memory_now(answer: &Value) -> Option<u64> {
    answer["actual"].as_u64()
}

/// Returns the memory statistics of a guest's balloon driver (`guest-stats` of the balloon,
/// docs/interop/virtio-balloon-stats.rst). A value that the driver does not report is the largest number.
pub fn memory(guest: TaskKey, answer: &Value) -> GuestMemory {
    let of = |name: &str| answer["stats"][name].as_u64().filter(|bytes| *bytes != u64::MAX);
    GuestMemory {
        usable: of("stat-available-memory").into(),
        swapped_in: of("stat-swap-in").into(),
        ..GuestMemory::new(guest)
    }
}

/// Sets the limits of disks that are in force (`query-block`): they can be changed at any time.
pub fn set_limits(answer: &Value, disks: &mut [GuestDisk]) {
    for disk in disks {
        let Some(block) = block_of(answer, disk).and_then(|block| block.get("inserted")) else { continue };
        let limits = IoLimits::read(LIMITS, block["group"].as_str(), |name| block[name].as_u64());
        // The limits of a filter between the device and the image are not among these.
        if limits.is_some() || block["drv"] != "throttle" {
            limits.set(disk);
        }
    }
}

/// Returns the I/O of the disks since the guest started (`query-block`, `query-blockstats`).
pub fn disk_io(blocks: &Value, statistics: &Value, disks: &[GuestDisk]) -> Vec<GuestDiskIo> {
    let of_disk = |disk: &GuestDisk| {
        let block = block_of(blocks, disk)?;
        let is_same = |entry: &&Value| ["device", "qdev"].iter().all(|key| entry[key] == block[key]);
        let stats = &statistics.as_array()?.iter().find(is_same)?["stats"];
        let count = |name: &str| stats[name].as_u64().into();
        Some(GuestDiskIo {
            reads: count("rd_operations"),
            writes: count("wr_operations"),
            flushes: count("flush_operations"),
            read_bytes: count("rd_bytes"),
            write_bytes: count("wr_bytes"),
            read_time: count("rd_total_time_ns"),
            write_time: count("wr_total_time_ns"),
            flush_time: count("flush_total_time_ns"),
            ..GuestDiskIo::new(disk.disk.clone())
        })
    };
    disks.iter().filter_map(of_disk).collect()
}

/// Returns the monitor's entry for a disk: by the device's name, as part of a path
/// (`/machine/peripheral/disk0/virtio-backend`), by the drive's name, or by the image.
fn block_of<'a>(answer: &'a Value, disk: &GuestDisk) -> Option<&'a Value> {
    let blocks = answer.as_array()?;
    let name = &*disk.disk.name;
    let is_device =
        |block: &&Value| block["qdev"].as_str().is_some_and(|path| path.split('/').any(|part| part == name));
    let is_drive = |block: &&Value| block["device"] == *name;
    let is_image = |block: &&Value| disk.file.get().is_some_and(|file| block["inserted"]["file"] == *file);
    let found = blocks.iter().find(is_device).or_else(|| blocks.iter().find(is_drive));
    found.or_else(|| blocks.iter().find(is_image))
}
