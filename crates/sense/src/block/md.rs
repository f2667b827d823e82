//! /sys/block/md*/md: software RAID (Documentation/admin-guide/md.rst).

use super::device;
use crate::{Root, SourceError, SourceInfo};
use whyslow_model::catalogue::Array;
use whyslow_model::snapshot::Snapshot;

pub(super) const INFO: SourceInfo = SourceInfo::new("sys/block/md", "software RAID arrays and their rebuilds");

pub(super) fn list(root: &Root) -> Vec<String> {
    device::disks(root).into_iter().filter(|name| name.starts_with("md")).collect()
}

pub(super) fn read(names: &[String], root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    out.block.array.extend(names.iter().filter_map(|name| array(root, name)));
    Ok(())
}

/// Reads an array. Returns `None` if the device is not an array.
fn array(root: &Root, name: &str) -> Option<Array> {
    let file = |file: &str| root.polled_word(&format!("sys/block/{name}/md/{file}")).filter(|w| !w.is_empty());
    let state = file("array_state")?;
    let number = |name: &str| file(name).as_deref().and_then(first_number);
    Some(Array {
        level: file("level").into(),
        state: state.into(),
        degraded: number("degraded").into(),
        members: number("raid_disks").into(),
        action: file("sync_action").into(),
        sync_done: file("sync_completed").as_deref().and_then(ratio).into(),
        sync_speed: number("sync_speed").map(|kib| kib.saturating_mul(1024)).into(),
        chunk: number("chunk_size").into(),
        failed_members: number("degraded")
            .filter(|&missing| missing > 0)
            .and_then(|_| faulty(root, name))
            .as_deref()
            .into(),
        ..Array::new(name.into())
    })
}

/// Lists the members that the kernel has marked faulty and that have not been removed yet.
fn faulty(root: &Root, name: &str) -> Option<String> {
    let folder = format!("sys/block/{name}/md");
    let is_faulty = |member: &str| {
        let state = root.word(&format!("{folder}/dev-{member}/state"));
        state.is_some_and(|state| state.split(',').any(|word| word == "faulty"))
    };
    let entries = root.list(&folder);
    let members = entries.iter().filter_map(|entry| entry.strip_prefix("dev-"));
    let names: Vec<&str> = members.filter(|member| is_faulty(member)).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Parses the first number in a file: `4 (3)` while an array is reshaped from 3 members to 4. Returns `None` for `none`.
fn first_number(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Parses `sectors done / total sectors`. Returns `None` if no operation runs (`none`) or it is queued (`delayed`).
fn ratio(text: &str) -> Option<f64> {
    let (done, all) = text.split_once('/')?;
    let (done, all): (u64, u64) = (done.trim().parse().ok()?, all.trim().parse().ok()?);
    (all > 0).then(|| done as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::listed;
    use crate::testing::CapturedTree;

    #[test]
    fn a_rebuilding_array_shows_its_progress() {
        let tree = CapturedTree::with_files(&[
            ("sys/block/md0/md/level", "raid5\n"),
            ("sys/block/md0/md/array_state", "active\n"),
            ("sys/block/md0/md/degraded", "1\n"),
            ("sys/block/md0/md/raid_disks", "4 (3)\n"),
            ("sys/block/md0/md/dev-sdb/state", "faulty\n"),
            ("sys/block/md0/md/dev-sdc/state", "in_sync\n"),
            ("sys/block/md0/md/sync_action", "recover\n"),
            ("sys/block/md0/md/sync_completed", "250 / 1000\n"),
            ("sys/block/md0/md/sync_speed", "2048\n"),
            ("sys/block/md1/md/array_state", "clean\n"),
            ("sys/block/md1/md/sync_completed", "none\n"),
            ("sys/block/md1/md/sync_speed", "none\n"),
            ("sys/block/sda/size", "1\n"),
        ]);
        let (outcome, s) = tree.read(&mut *listed(INFO, list, read));
        assert_eq!(outcome, Ok(()));
        let [rebuilding, clean] = &s.block.array[..] else { panic!("{:?}", s.block.array) };
        assert_eq!((rebuilding.level.get(), rebuilding.action.get()), (Some("raid5"), Some("recover")));
        assert_eq!((rebuilding.degraded.get(), rebuilding.members.get()), (Some(1.0), Some(4.0)));
        assert_eq!((rebuilding.failed_members.get(), clean.failed_members.get()), (Some("sdb"), None));
        assert_eq!((rebuilding.sync_done.get(), rebuilding.sync_speed.get()), (Some(0.25), Some(2_097_152.0)));
        assert_eq!((clean.state.get(), clean.sync_done.get(), clean.sync_speed.get()), (Some("clean"), None, None));
    }
}
