//! What the disks of guests moved, and how long that took, as the guests see it. Only QEMU's monitor knows.

use super::monitor::Monitor;
use super::processes;
use crate::root::Root;
use crate::source::SourceInfo;
use crate::source_error::SourceError;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::qemu::monitor;

pub(in crate::task) const INFO: SourceInfo =
    SourceInfo::new("qemu/monitor", "what the disks of virtual machines moved, and how long requests took").on_demand();

pub(in crate::task) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let mut unread = Vec::new();
    for process in processes(root).filter(|process| !process.config.disks.is_empty()) {
        let answers = Monitor::of(root, &process).and_then(|mut monitor| {
            let answers = monitor.ask("query-block").zip(monitor.ask("query-blockstats"));
            answers.ok_or_else(|| "its monitor does not answer".into())
        });
        match answers {
            Ok((blocks, statistics)) => {
                out.guest.guest_disk_io.extend(monitor::disk_io(&blocks, &statistics, &process.config.disks));
            }
            Err(why) => {
                let name = process.config.guest.name.get().map_or_else(|| process.task.pid.to_string(), str::to_owned);
                unread.push(format!("guest {name}: {why}"));
            }
        }
    }
    if unread.is_empty() { Ok(()) } else { Err(SourceError::Absent(unread.join("; "))) }
}
