//! The paths of NVMe disks with native multipath (drivers/nvme/host/multipath.c): `nvme0n1`, the disk of the subsystem, passes
//! requests on to `nvme0c1n1`, the same namespace behind controller `nvme1`.

use super::device;
use crate::{Root, SourceError, SourceInfo};
use whyslow_model::catalogue::Path;
use whyslow_model::key::LinkKey;
use whyslow_model::snapshot::Snapshot;

pub(super) const INFO: SourceInfo = SourceInfo::new("sys/block/nvme", "paths of NVMe disks, and their states");

/// Lists the disks that have more than one path, each with its paths.
pub(super) fn list(root: &Root) -> Vec<(String, Vec<String>)> {
    let disks = device::disks(root);
    let several = |disk: String| {
        let paths = paths(&disk, &disks);
        (paths.len() > 1).then_some((disk, paths))
    };
    disks.iter().cloned().filter_map(several).collect()
}

/// Selects the paths of a disk from all entries of /sys/block.
pub(super) fn paths(disk: &str, all: &[String]) -> Vec<String> {
    let is_path = |name: &&String| named_disk(name).is_some_and(|named| named == disk);
    all.iter().filter(is_path).cloned().collect()
}

/// Returns the disk that a path leads to, by their names: `nvme0n1` for `nvme0c1n1`. Returns `None` if the entry is not a path.
fn named_disk(path: &str) -> Option<String> {
    let (subsystem, rest) = path.strip_prefix("nvme")?.split_once('c')?;
    let (controller, namespace) = rest.split_once('n')?;
    let are_numbers = [subsystem, controller, namespace].iter().all(|number| number.parse::<u32>().is_ok());
    are_numbers.then(|| format!("nvme{subsystem}n{namespace}"))
}

pub(super) fn read(disks: &[(String, Vec<String>)], root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    for (disk, paths) in disks {
        for path in paths {
            let word = |file: &str| root.polled_word(&format!("sys/block/{path}/{file}"));
            let Some(controller) = word("device/state") else { continue };
            let key = LinkKey { upper: disk.as_str().into(), lower: path.as_str().into() };
            let state = state(&controller, word("ana_state").as_deref());
            out.block.path.push(Path { state: state.into(), adapter: adapter(root, path).into(), ..Path::new(key) });
        }
    }
    Ok(())
}

/// Classifies a path by the states of its controller and of its namespace there (drivers/nvme/host/sysfs.c:
/// nvme_sysfs_show_state; multipath.c: nvme_ana_state_names). Targets without the latter treat all paths alike.
fn state(controller: &str, access: Option<&str>) -> &'static str {
    match (controller, access) {
        ("live", None | Some("optimized")) => "active",
        ("live", Some("non-optimized")) => "available",
        ("live", Some("inaccessible" | "change")) => "standby",
        _ => "failed",
    }
}

/// Returns the controller of a path: `nvme1`.
fn adapter(root: &Root, path: &str) -> Option<String> {
    root.link(&format!("sys/block/{path}/device"))?.rsplit('/').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::listed;
    use crate::testing::CapturedTree;

    #[test]
    fn a_path_whose_controller_is_not_live_has_failed() {
        let tree = CapturedTree::with_files(&[
            ("sys/block/nvme0n1/size", "1\n"),
            ("sys/block/nvme0c0n1/ana_state", "optimized\n"),
            ("sys/block/nvme0c0n1/device/state", "connecting\n"),
            ("sys/block/nvme0c1n1/ana_state", "non-optimized\n"),
            ("sys/block/nvme0c1n1/device/state", "live\n"),
            ("sys/block/nvme0n2/size", "1\n"),
            ("sys/block/nvme0c0n2/device/state", "live\n"),
            ("sys/block/nvme1n1/device/state", "live\n"),
        ]);
        let (outcome, s) = tree.read(&mut *listed(INFO, list, read));
        assert_eq!(outcome, Ok(()));
        let paths: Vec<String> =
            s.block.path.iter().map(|path| format!("{} {}", path.path, path.state.get().unwrap())).collect();
        assert_eq!(paths, ["nvme0n1 on nvme0c0n1 failed", "nvme0n1 on nvme0c1n1 available"]);
    }

    #[test]
    fn what_a_path_is_named_after_is_its_disk() {
        let disks = ["nvme0c1n1", "nvme12c0n34", "nvme0n1", "nvme0c1n1p1", "nvmec1n1", "sdc1n1"].map(named_disk);
        assert_eq!(disks, [Some("nvme0n1".into()), Some("nvme12n34".into()), None, None, None, None]);
    }
}
