//! The log of a file system on the drive of its data: the gain from a separate log device.

use super::{Machine, drive, thing};
use whyslow_documents::expectation::{LayoutGain, ThingExpected};
use whyslow_documents::io_stack::{NodeKind, StackNode};
use whyslow_model::catalogue::Disk;
use whyslow_model::window::Change;

/// Flushes per second from which programs wait for the log.
const ENOUGH: f64 = 1.0;

/// Returns the gain from a separate log device. A rotating drive seeks between data and log for each write that a program needs
/// on stable storage.
pub(super) fn of_file_system(machine: &Machine<'_>, node: &StackNode, changes: &[Change<'_, Disk>]) -> ThingExpected {
    let disk = node.below.first().and_then(|below| machine.stack.node(&below.id)).map(|device| machine.disk_of(device));
    let rotates = |disk: &StackNode| machine.queue(disk).and_then(|queue| drive::rotation(queue, machine)).is_some();
    let flushes = |disk: &StackNode| {
        let change = changes.iter().find(|change| *change.key().to_string() == *disk.name);
        change.and_then(|change| change.rate(|disk| disk.flushes)).is_some_and(|flushes| flushes >= ENOUGH)
    };
    let is_slowed = |disk: &&StackNode| disk.kind == NodeKind::Disk && rotates(disk) && flushes(disk);
    let (Some("internal"), Some(disk)) = (node.words("journal"), disk.filter(is_slowed)) else {
        return ThingExpected::default();
    };
    let mut file_system = thing(format!("{}, log inside, on {}", node.words("type").unwrap_or_default(), disk.name));
    file_system.layouts.push(LayoutGain {
        change: "the log on a drive of its own".into(),
        times: 2.0,
        what: "synchronous writes, at most".into(),
        formula: "(1 positioning for the log + 1 for the data) / 1".into(),
        source: "mkfs.xfs(8) -l logdev, mke2fs(8) -J device; Ruemmler, Wilkes (see the drive)".into(),
        cost:
            "a drive, which need not be large, and a new file system (ext4: tune2fs -J device= while it is not mounted)"
                .into(),
    });
    file_system
}
