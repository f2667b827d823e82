//! All control groups, brought to one form (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/).
//!
//! Every hierarchy is walked and each folder adds what it has to the row of its path: on a machine with v1, five
//! hierarchies make one row. Where v1 and v2 both have a figure, v1's stands: on a mixed machine the controllers are
//! v1's. A figure includes the groups below, the root group's (`/`) all the machine, so rows must not be summed.
//!
//! A machine can have thousands of groups, most of them idle, and a group has thirty files. So limits are read once in a
//! while, and a group in which nothing ran and nobody waited since the last sample keeps the row it had. That of the whole
//! machine, which other families tell better, is seldom read either.

use super::files::Folder;
use super::forest::Forest;
use super::hierarchy::{Hierarchy, Version};
use super::rows::{Book, Devices};
use super::{v1, v2};
use crate::{Miss, Root, Source};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::State;

/// How long limits are taken to stand.
const LIMITS_STAND: Duration = Duration::from_secs(30);
/// How long the row of an idle group is taken to stand (its memory can be reclaimed, and pages written, by others), and
/// that of the whole machine.
const IDLE_STANDS: Duration = Duration::from_secs(10);

/// The source of families `group` and `group_io`.
#[derive(Default)]
pub(super) struct Groups {
    forest: Forest,
    groups: BTreeMap<String, Known>,
}

impl Source for Groups {
    fn name(&self) -> &'static str {
        "sys/fs/cgroup"
    }

    fn tells(&self) -> &'static str {
        "use and limits of control groups"
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss> {
        if self.forest.refresh(root)? {
            self.gather();
        }
        let mut devices = Devices::new(root);
        let mut denied = None;
        let mut gone = false;
        for known in self.groups.values_mut() {
            known.refresh(root, &mut devices, &mut denied);
            known.book.copy_to(out);
            gone |= !known.book.tells();
        }
        if gone {
            self.forest.distrust();
        }
        denied.map_or(Ok(()), Err)
    }
}

impl Groups {
    /// Brings the folders of each path together; what is known of groups that stay is kept.
    fn gather(&mut self) {
        let mut before = std::mem::take(&mut self.groups);
        for tree in &self.forest.trees {
            for below in &tree.groups {
                let place = Place::new(&tree.hierarchy, below);
                self.groups.entry(tree.hierarchy.group(below)).or_default().places.push(place);
            }
        }
        for (path, known) in &mut self.groups {
            match before.remove(path) {
                Some(old) if old.places.iter().map(|p| &p.path).eq(known.places.iter().map(|p| &p.path)) => {
                    *known = old
                }
                _ => known.path.clone_from(path),
            }
        }
    }
}

/// The folder of a group in one hierarchy.
struct Place {
    path: String,
    version: Version,
    /// The controllers that are on, where the version is 2.
    on: v2::Controllers,
}

impl Place {
    fn new(hierarchy: &Hierarchy, below: &str) -> Self {
        Self { path: hierarchy.folder(below), version: hierarchy.version.clone(), on: v2::Controllers::default() }
    }
}

/// A group, and what was read of it.
#[derive(Default)]
struct Known {
    path: String,
    places: Vec<Place>,
    limits: Book,
    limits_read: Option<Instant>,
    book: Book,
    book_read: Option<Instant>,
    /// Processor time and stall time as they stood; empty where no hierarchy tells them.
    signs: Vec<u64>,
    /// Whether it is no group, but the machine.
    is_the_machine: bool,
}

impl Known {
    /// Reads what may have changed.
    fn refresh(&mut self, root: &Root, devices: &mut Devices<'_>, denied: &mut Option<Miss>) {
        let idle = self.is_the_machine || self.is_idle(root);
        if idle && self.book_read.is_some_and(|at| at.elapsed() < IDLE_STANDS) {
            return;
        }
        let mut limits_are_new = false;
        if self.limits_read.is_none_or(|at| at.elapsed() >= LIMITS_STAND) {
            self.read_limits(root, devices, denied);
            limits_are_new = true;
        }
        if !self.read_use(root, devices, denied, !idle && self.book_read.is_some()) && !limits_are_new {
            // The group is gone, and its limits with it.
            self.read_limits(root, devices, denied);
            self.book = self.limits.clone();
        }
        self.book_read = Some(Instant::now());
    }

    /// Whether no task of the group, or of one below, ran or was held up since this was asked last.
    fn is_idle(&mut self, root: &Root) -> bool {
        let signs = self.signs_of_life(root);
        let idle = !signs.is_empty() && signs == self.signs;
        self.signs = signs;
        idle
    }

    /// What grows whenever a task of the group, or of one below, runs or is held up.
    fn signs_of_life(&self, root: &Root) -> Vec<u64> {
        let mut signs = Vec::new();
        let lone = self.places.len() == 1;
        for place in &self.places {
            let mut folder = Folder::kept(root, &place.path);
            match &place.version {
                Version::V1 { controllers } if lone && controllers == &["memory"] => {
                    v1::signs_of_memory(&mut folder, &mut signs);
                }
                Version::V1 { controllers } => signs.extend(v1::sign_of_life(controllers, &mut folder)),
                Version::V2 => v2::signs_of_life(&mut folder, &mut signs),
            }
        }
        signs
    }

    fn read_limits(&mut self, root: &Root, devices: &mut Devices<'_>, denied: &mut Option<Miss>) {
        self.limits = Book::new(&self.path);
        for place in &mut self.places {
            let mut folder = Folder::new(root, &place.path);
            self.is_the_machine = match &place.version {
                Version::V1 { controllers } => {
                    v1::limits(controllers, &mut folder, &mut self.limits, devices);
                    v1::is_the_machine(&mut folder)
                }
                Version::V2 => {
                    place.on = v2::limits(&mut folder, &mut self.limits, devices);
                    v2::is_the_machine(&mut folder)
                }
            };
            close(folder, &place.version, &mut self.limits, denied);
        }
        self.limits_read = Some(Instant::now());
    }

    /// Whether there was anything to read. The files of a group that is at work are kept open.
    fn read_use(&mut self, root: &Root, devices: &mut Devices<'_>, denied: &mut Option<Miss>, at_work: bool) -> bool {
        self.book = self.limits.clone();
        let mut any = false;
        for place in &self.places {
            let folder = if at_work { Folder::kept } else { Folder::new };
            let mut folder = folder(root, &place.path);
            match &place.version {
                Version::V1 { controllers } => v1::usage(controllers, &mut folder, &mut self.book, devices),
                Version::V2 => v2::usage(&place.on, &mut folder, &mut self.book, devices),
            }
            any |= close(folder, &place.version, &mut self.book, denied);
        }
        self.book.group.identity = self.identity(root);
        any
    }

    /// The inodes of its folders: a group that is removed and made again under its name has others.
    fn identity(&self, root: &Root) -> State {
        let inode = |place: &Place| Some(fs::metadata(root.at(&place.path)).ok()?.ino().to_string());
        let inodes: Vec<String> = self.places.iter().filter_map(inode).collect();
        if inodes.is_empty() { State::default() } else { inodes.join(" ").into() }
    }
}

/// Notes how reading a folder went; whether anything was found in it.
fn close(folder: Folder<'_>, version: &Version, book: &mut Book, denied: &mut Option<Miss>) -> bool {
    if folder.found {
        book.note_version(version.name());
    }
    if denied.is_none() {
        *denied = folder.denied;
    }
    folder.found
}
