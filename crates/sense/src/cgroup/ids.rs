//! Control groups by the number the kernel has for them: the inode of their folder.

use super::hierarchy::{self, Version};
use crate::block::mountinfo;
use crate::{Miss, Root};
use std::fs;
use std::os::unix::fs::MetadataExt;
use whyslow_model::value::Name;

/// The groups that block requests are charged to: those of the hierarchy that has the blkio controller, or else of
/// version 2.
///
/// # Errors
/// Where the mounts cannot be read.
pub(crate) fn block_groups(root: &Root) -> Result<Vec<(u64, Name)>, Miss> {
    let hierarchies = hierarchy::of_mounts(mountinfo::read(root)?);
    let has_blkio =
        |version: &Version| matches!(version, Version::V1 { controllers } if controllers.contains(&"blkio"));
    let of = hierarchies
        .iter()
        .find(|h| has_blkio(&h.version))
        .or_else(|| hierarchies.iter().find(|h| h.version == Version::V2));
    let Some(of) = of else { return Ok(Vec::new()) };
    let number = |below: &str| Some(fs::metadata(root.at(of.folder(below))).ok()?.ino());
    Ok(of.walk(root).iter().filter_map(|below| Some((number(below)?, of.group(below).as_str().into()))).collect())
}
