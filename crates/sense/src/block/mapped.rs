//! /sys/block/dm-*/dm: names of device-mapper devices (Documentation/ABI/testing/sysfs-block-dm) and, for root only, the targets
//! of their tables and their status.

use super::device;
use super::dm_ioctl::{DmControl, DmState};
use crate::{Root, SourceError, SourceInfo};
use std::collections::BTreeSet;
use whyslow_model::catalogue::{Array, MappedDevice, Path, Volume};
use whyslow_model::key::LinkKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_proc::device_mapper;

pub(super) const INFO: SourceInfo = SourceInfo::new("sys/block/dm", "devices of the device mapper").slow();

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let mut names = device::disks(root);
    names.retain(|name| root.at(format!("sys/block/{name}/dm")).exists());
    if names.is_empty() {
        return Ok(());
    }
    let control = root.is_live().then(|| DmControl::open().ok()).flatten();
    for name in names {
        let state = control.as_ref().and_then(|control| {
            let (major, minor) = number(root, &name)?;
            control.state(major, minor)
        });
        let mapped = row(root, &name, state.as_ref());
        if let (Some(state), Some(volume)) = (state, mapped.name.get()) {
            add_state(root, volume, &state, out);
        }
        out.block.mapped.push(mapped);
    }
    Ok(())
}

fn number(root: &Root, name: &str) -> Option<(u32, u32)> {
    let word = root.word(&format!("sys/block/{name}/dev"))?;
    let (major, minor) = word.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn row(root: &Root, device: &str, state: Option<&DmState>) -> MappedDevice {
    let targets = state.map(|state| state.targets.as_slice()).unwrap_or_default();
    let word = |file: &str| root.word(&format!("sys/block/{device}/dm/{file}")).filter(|word| !word.is_empty());
    let kinds: BTreeSet<&str> = targets.iter().map(|target| target.kind.as_str()).collect();
    let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
    MappedDevice {
        name: word("name").into(),
        uuid: word("uuid").into(),
        target: Some(kinds).filter(|kinds| !kinds.is_empty()).into(),
        stripes: targets.iter().filter_map(|target| target.stripes).max().into(),
        chunk: targets.iter().filter_map(|target| target.chunk).min().into(),
        ..MappedDevice::new(device.into())
    }
}

/// Adds the state that the targets report: suspended, full, failed or degraded, and their paths.
fn add_state(root: &Root, name: &str, state: &DmState, out: &mut Snapshot) {
    let mut volume = Volume { suspended: f64::from(u8::from(state.suspended)).into(), ..Volume::new(name.into()) };
    for target in &state.targets {
        let words: Vec<&str> = target.status.split_ascii_whitespace().collect();
        let status = device_mapper::status(&target.kind, &words);
        if volume.kind.get().is_none() {
            volume.kind = device_mapper::kind(&target.kind).into();
        }
        status.apply_to(&mut volume);
        if let Some(raid) = status.raid {
            let mut array = Array::new(name.into());
            raid.apply_to(&mut array);
            out.block.array.push(array);
        }
        for path in status.paths {
            let device = device::by_number(root, path.device).unwrap_or_else(|| path.device.to_owned());
            let key = LinkKey { upper: name.into(), lower: device.as_str().into() };
            out.block.path.push(Path { state: path.state.into(), ..Path::new(key) });
        }
    }
    out.block.volume.push(volume);
}

#[cfg(test)]
mod tests {
    use super::super::dm_ioctl::Target;
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn a_volume_of_several_parts_has_the_smallest_chunk_and_most_stripes() {
        let tree = CapturedTree::with_files(&[
            ("sys/block/dm-0/dm/name", "vg-data\n"),
            ("sys/block/dm-0/dm/uuid", "LVM-abc\n"),
            ("sys/block/sda/size", "1\n"),
        ]);
        let target = |kind: &str, stripes, chunk| Target { kind: kind.into(), stripes, chunk, ..Target::default() };
        let targets = vec![
            target("striped", Some(2), Some(65_536)),
            target("linear", None, None),
            target("striped", Some(4), Some(1 << 20)),
        ];
        let found = row(&tree.root(), "dm-0", Some(&DmState { suspended: false, targets }));
        assert_eq!((found.name.get(), found.uuid.get()), (Some("vg-data"), Some("LVM-abc")));
        assert_eq!((found.target.get(), found.stripes.get()), (Some("linear, striped"), Some(4.0)));
        assert_eq!(found.chunk.get(), Some(65_536.0));
    }

    #[test]
    fn a_device_says_what_failed_and_what_is_full() {
        let tree = CapturedTree::with_files(&[("sys/block/sda/size", "1\n")]);
        tree.link("sys/dev/block/8:16", "../../devices/pci/block/sdb");
        let mut out = Snapshot::default();
        let mut add = |name: &str, kind: &str, status: &str, suspended| {
            let target = Target { kind: kind.into(), status: status.into(), ..Target::default() };
            add_state(&tree.root(), name, &DmState { suspended, targets: vec![target] }, &mut out);
        };
        add("mpatha", "multipath", "2 0 0 0 1 1 A 0 2 2 8:16 A 0 0 1 8:32 F 1 0 1 ", false);
        add("vg-pool", "thin-pool", "1 10/100 196/200 - rw no_discard_passdown queue_if_no_space - 1024 ", true);
        add("vg-home", "raid", "raid1 2 AD 1024/4096 recover 0 0 - ", false);
        let paths: Vec<_> = out.block.path.iter().map(|path| (path.path.to_string(), path.state.get())).collect();
        assert_eq!(
            paths,
            [("mpatha on sdb".to_owned(), Some("active")), ("mpatha on 8:32".to_owned(), Some("failed"))]
        );
        let [array] = &out.block.array[..] else { panic!("{:?}", out.block.array) };
        assert_eq!((&*array.array, array.level.get(), array.degraded.get()), ("vg-home", Some("raid1"), Some(1.0)));
        let [mpath, pool, _] = &out.block.volume[..] else { panic!("{:?}", out.block.volume) };
        assert_eq!((mpath.kind.get(), mpath.suspended.get()), (Some("multipath"), Some(0.0)));
        assert_eq!((pool.data_used.get(), pool.metadata_used.get()), (Some(0.98), Some(0.1)));
        assert_eq!((pool.suspended.get(), pool.failure.get()), (Some(1.0), None));
    }

    #[test]
    fn only_devices_of_the_device_mapper_are_listed() {
        let tree = CapturedTree::with_files(&[("sys/block/dm-0/dm/name", "root\n"), ("sys/block/sda/size", "1\n")]);
        let mut out = Snapshot::default();
        assert_eq!(read(&tree.root(), &mut out), Ok(()));
        let [only] = &out.block.mapped[..] else { panic!("{:?}", out.block.mapped) };
        assert_eq!((only.name.get(), only.uuid.get(), only.target.get()), (Some("root"), None, None));
    }
}
