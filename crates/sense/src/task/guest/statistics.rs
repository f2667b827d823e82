//! I/O of guests' disks, its duration, and the memory statistics of their balloon drivers. Only QEMU's monitor reports them.

use super::monitor::Monitor;
use super::{QemuProcess, processes};
use crate::root::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::catalogue::{GuestDiskIo, GuestMemory};
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::qemu::monitor;

pub(in crate::task) const INFO: SourceInfo = SourceInfo::new(
    "qemu/monitor",
    "disks of virtual machines, how long requests took, and what is left of their memory",
)
.on_demand();

pub(in crate::task) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let mut unread = Vec::new();
    let asked = |process: &QemuProcess| !process.config.disks.is_empty() || process.config.balloon.is_some();
    for process in processes(root).filter(asked) {
        match Monitor::open(root, &process)
            .and_then(|mut monitor| Ok((disks(&mut monitor, &process)?, memory(&mut monitor, &process))))
        {
            Ok((disks, memory)) => {
                out.guest.guest_disk_io.extend(disks);
                out.guest.guest_memory.extend(memory);
            }
            Err(why) => {
                let name = process.config.guest.name.get().map_or_else(|| process.task.pid.to_string(), str::to_owned);
                unread.push(format!("guest {name}: {why}"));
            }
        }
    }
    if unread.is_empty() { Ok(()) } else { Err(SourceError::Absent(unread.join("; "))) }
}

fn disks(monitor: &mut Monitor, process: &QemuProcess) -> Result<Vec<GuestDiskIo>, String> {
    let answers = monitor.ask("query-block").zip(monitor.ask("query-blockstats"));
    let (blocks, statistics) = answers.ok_or("its monitor does not answer")?;
    Ok(monitor::disk_io(&blocks, &statistics, &process.config.disks))
}

/// Reads the balloon statistics. Returns `None` for a balloon without a name.
fn memory(monitor: &mut Monitor, process: &QemuProcess) -> Option<GuestMemory> {
    let balloon = process.config.balloon.as_ref()?;
    let statistics = monitor.property(&format!("/machine/peripheral/{balloon}"), "guest-stats")?;
    Some(monitor::memory(process.task, &statistics))
}
