//! The rows of one group, while they are put together from several hierarchies.

use crate::Root;
use crate::block::device;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Group, GroupIo};
use whyslow_model::key::Pair;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// The row of a group, and one for each device.
#[derive(Clone, Default)]
pub(super) struct Book {
    /// The group's row.
    pub(super) group: Group,
    io: BTreeMap<Name, GroupIo>,
}

impl Book {
    /// The book of the group with this path, with nothing in it.
    pub(super) fn new(path: &str) -> Self {
        Self { group: Group::new(path.into()), io: BTreeMap::new() }
    }

    /// The row of a device.
    pub(super) fn io(&mut self, device: Name) -> &mut GroupIo {
        let path = &self.group.path;
        self.io
            .entry(device)
            .or_insert_with_key(|device| GroupIo::new(Pair { upper: path.clone(), lower: device.clone() }))
    }

    /// Notes that a hierarchy of this version knows something of the group.
    pub(super) fn note_version(&mut self, version: &str) {
        match self.group.version.get() {
            Some(noted) if noted.contains(version) => {}
            Some(_) => self.group.version = "v1+v2".into(),
            None => self.group.version = version.into(),
        }
    }

    /// Whether anything is known of the group.
    pub(super) fn tells(&self) -> bool {
        self.group.version.get().is_some()
    }

    /// Hands copies of the rows over; a group of which nothing is known has none.
    pub(super) fn copy_to(&self, out: &mut Snapshot) {
        if self.tells() {
            out.cgroup.group.push(self.group.clone());
            let identity = &self.group.identity;
            let io = self.io.values().map(|io| GroupIo { identity: identity.clone(), ..io.clone() });
            out.cgroup.group_io.extend(io);
        }
    }
}

/// Names of devices by number; valid for one reading, as numbers are given out anew.
pub(super) struct Devices<'r> {
    root: &'r Root,
    names: BTreeMap<String, Name>,
}

impl<'r> Devices<'r> {
    /// None looked up yet.
    pub(super) fn new(root: &'r Root) -> Self {
        Self { root, names: BTreeMap::new() }
    }

    /// The name of the device with this `major:minor`, which stands for the name of a device that is gone.
    pub(super) fn name(&mut self, number: &str) -> Name {
        if let Some(name) = self.names.get(number) {
            return name.clone();
        }
        let name = Name::from(device::by_number(self.root, number).unwrap_or_else(|| number.to_owned()));
        self.names.insert(number.to_owned(), name.clone());
        name
    }
}
