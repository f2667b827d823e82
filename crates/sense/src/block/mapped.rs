//! /sys/block/dm-*/dm: names of the device mapper's devices (Documentation/ABI/testing/sysfs-block-dm), and what their tables do with
//! requests, which only root may see.

use super::device;
use super::dm_ioctl::{DmControl, Target};
use crate::{Root, SourceError, SourceInfo};
use std::collections::BTreeSet;
use whyslow_model::catalogue::MappedDevice;
use whyslow_model::snapshot::Snapshot;

pub(super) const INFO: SourceInfo = SourceInfo::new("sys/block/dm", "devices of the device mapper").slow();

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let mut names = device::disks(root);
    names.retain(|name| root.at(format!("sys/block/{name}/dm")).exists());
    if names.is_empty() {
        return Ok(());
    }
    let control = root.is_live().then(|| DmControl::open().ok()).flatten();
    for name in names {
        let targets = control.as_ref().and_then(|control| {
            let (major, minor) = number(root, &name)?;
            control.targets(major, minor)
        });
        out.block.mapped.push(row(root, &name, &targets.unwrap_or_default()));
    }
    Ok(())
}

fn number(root: &Root, name: &str) -> Option<(u32, u32)> {
    let word = root.word(&format!("sys/block/{name}/dev"))?;
    let (major, minor) = word.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn row(root: &Root, device: &str, targets: &[Target]) -> MappedDevice {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::CapturedTree;

    #[test]
    fn a_volume_of_several_parts_has_the_smallest_chunk_and_most_stripes() {
        let tree = CapturedTree::of(&[
            ("sys/block/dm-0/dm/name", "vg-data\n"),
            ("sys/block/dm-0/dm/uuid", "LVM-abc\n"),
            ("sys/block/sda/size", "1\n"),
        ]);
        let target = |kind: &str, stripes, chunk| Target { kind: kind.into(), stripes, chunk };
        let parts = [
            target("striped", Some(2), Some(65_536)),
            target("linear", None, None),
            target("striped", Some(4), Some(1 << 20)),
        ];
        let found = row(&tree.root(), "dm-0", &parts);
        assert_eq!((found.name.get(), found.uuid.get()), (Some("vg-data"), Some("LVM-abc")));
        assert_eq!((found.target.get(), found.stripes.get()), (Some("linear, striped"), Some(4.0)));
        assert_eq!(found.chunk.get(), Some(65_536.0));
    }

    #[test]
    fn only_devices_of_the_device_mapper_are_listed() {
        let tree = CapturedTree::of(&[("sys/block/dm-0/dm/name", "root\n"), ("sys/block/sda/size", "1\n")]);
        let mut out = Snapshot::default();
        assert_eq!(read(&tree.root(), &mut out), Ok(()));
        let [only] = &out.block.mapped[..] else { panic!("{:?}", out.block.mapped) };
        assert_eq!((only.name.get(), only.uuid.get(), only.target.get()), (Some("root"), None, None));
    }
}
