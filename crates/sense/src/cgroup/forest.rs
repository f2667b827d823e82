//! Which groups there are, in all hierarchies. They are listed anew only when the kernel's count of them changes.

use super::hierarchy::{self, Counts, Hierarchy};
use crate::block::mount_watch::MountWatch;
use crate::{Miss, Root};
use std::time::{Duration, Instant};

/// How long a list is good for while the count stands: one group can come as another goes.
const GOOD: Duration = Duration::from_secs(5);

/// All hierarchies and their groups.
#[derive(Default)]
pub(super) struct Forest {
    watch: MountWatch,
    /// The hierarchies, version 2 first.
    pub(super) trees: Vec<Tree>,
}

/// A hierarchy and its groups.
pub(super) struct Tree {
    /// Where it is.
    pub(super) hierarchy: Hierarchy,
    /// Paths of its groups below the mount point.
    pub(super) groups: Vec<String>,
    /// The count of its groups and the time when they were listed; `None` where they have to be listed.
    listed: Option<(Option<u64>, Instant)>,
}

impl Forest {
    /// Lists what may have changed. Whether any list did.
    ///
    /// # Errors
    /// Where the mounts cannot be read, or there is no hierarchy.
    pub(super) fn refresh(&mut self, root: &Root) -> Result<bool, Miss> {
        let mut changed = false;
        if let Some(mounts) = self.watch.changed(root)? {
            let hierarchies = hierarchy::of_mounts(mounts);
            if !self.trees.iter().map(|tree| &tree.hierarchy).eq(&hierarchies) {
                self.trees = hierarchies.into_iter().map(Tree::new).collect();
                changed = true;
            }
        }
        if self.trees.is_empty() {
            return Err(Miss::Absent("no cgroup hierarchy with a controller is mounted".into()));
        }
        let counts = Counts::read(root);
        for tree in &mut self.trees {
            changed |= tree.refresh(root, &counts);
        }
        Ok(changed)
    }

    /// Has every list made anew at the next refresh: a group that was listed is not there.
    pub(super) fn distrust(&mut self) {
        for tree in &mut self.trees {
            tree.listed = None;
        }
    }
}

impl Tree {
    fn new(hierarchy: Hierarchy) -> Self {
        Self { hierarchy, groups: Vec::new(), listed: None }
    }

    fn refresh(&mut self, root: &Root, counts: &Counts) -> bool {
        let count = self.hierarchy.count(root, counts);
        if let Some((at_count, at)) = self.listed
            && count.is_some()
            && count == at_count
            && at.elapsed() < GOOD
        {
            return false;
        }
        let groups = self.hierarchy.walk(root);
        self.listed = Some((count, Instant::now()));
        let changed = groups != self.groups;
        self.groups = groups;
        changed
    }
}
