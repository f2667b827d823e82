//! File systems with next to no space left.

use super::mountinfo::{self, MountInfo};
use super::mounts::visible;
use super::statvfs::{FsSpace, StatvfsCalls};
use crate::{Root, SourceError};
use std::fs;
use std::os::unix::fs::MetadataExt;
use whyslow_model::value::Name;

/// A file system is full if at most one byte in this many is available.
const FULL_BELOW: u64 = 50;

/// A mount of a full file system, and the device number of its files (st_dev), which with btrfs is not that of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FullMount {
    pub(crate) point: Name,
    pub(crate) device: u64,
}

/// Finds full file systems; remembers which mounts do not respond.
#[derive(Default)]
pub(crate) struct FullMounts {
    calls: StatvfsCalls,
}

impl FullMounts {
    /// The mounts of full file systems that can be written to.
    pub(crate) fn read(&mut self, root: &Root) -> Result<Vec<FullMount>, SourceError> {
        root.require_live()?;
        let lines: Vec<MountInfo> = visible(mountinfo::read(root)?).filter(|line| !line.has("ro")).collect();
        self.calls.retain(|point| lines.iter().any(|line| line.point == point));
        let full = lines.iter().filter(|line| self.calls.space(line).is_some_and(|space| is_full(&space)));
        let device = |line: &MountInfo| Some(fs::metadata(&line.point).ok()?.dev());
        Ok(full
            .filter_map(|line| Some(FullMount { point: line.point.as_str().into(), device: device(line)? }))
            .collect())
    }
}

/// By what df calls used and available.
fn is_full(space: &FsSpace) -> bool {
    let used = space.size.saturating_sub(space.free);
    space.size > 0 && space.available < used.saturating_add(space.available) / FULL_BELOW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_for_root_is_no_space() {
        let space = |free, available| FsSpace { size: 1000, free, available, inodes: 0, inodes_free: 0 };
        assert!(is_full(&space(50, 0)) && is_full(&space(60, 10)));
        assert!(!is_full(&space(100, 50)));
        assert!(!is_full(&FsSpace { size: 0, ..space(0, 0) }), "proc and the like have no size");
    }
}
