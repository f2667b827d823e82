//! All control groups, brought to one form (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/).
//!
//! Every hierarchy is walked and each folder adds what it has to the row of its path: on a machine with v1, five
//! hierarchies make one row. Where v1 and v2 both have a figure, v1's stands: on a mixed machine the controllers are
//! v1's. A figure includes the groups below, the root group's (`/`) all the machine, so rows must not be summed.

use super::books::Books;
use super::folder::Folder;
use super::hierarchy::{self, Hierarchy, Version};
use super::{v1, v2};
use crate::{Miss, Root, Source};
use whyslow_model::snapshot::Snapshot;

/// The source of families `group` and `group_io`.
pub(super) struct Groups;

impl Source for Groups {
    fn name(&self) -> &'static str {
        "sys/fs/cgroup"
    }

    fn tells(&self) -> &'static str {
        "use and limits of control groups"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        let hierarchies = hierarchy::find(root)?;
        if hierarchies.is_empty() {
            return Err(Miss::Absent("no cgroup hierarchy with a controller is mounted".into()));
        }
        let mut books = Books::new(root);
        let mut denied = None;
        for h in &hierarchies {
            for below in h.walk(root) {
                let mut folder = Folder::new(root, h.folder(&below));
                read_group(h, &h.group(&below), &mut folder, &mut books);
                denied = denied.or(folder.denied);
            }
        }
        books.close(out);
        denied.map_or(Ok(()), Err)
    }
}

/// Adds what one folder of a hierarchy tells of its group.
fn read_group(hierarchy: &Hierarchy, path: &str, folder: &mut Folder<'_>, books: &mut Books<'_>) {
    match &hierarchy.version {
        Version::V1 { controllers } => v1::read(path, controllers, folder, books),
        Version::V2 => v2::read(path, folder, books),
    }
    if folder.found {
        books.note_version(path, hierarchy.version.name());
    }
}
