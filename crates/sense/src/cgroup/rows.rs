//! The rows of one cgroup, collected from several hierarchies.

use crate::Root;
use crate::block::device;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Group, GroupIo};
use whyslow_model::key::LinkKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

#[derive(Clone, Default)]
pub(super) struct GroupRows {
    pub(super) group: Group,
    io: BTreeMap<Name, GroupIo>,
}

impl GroupRows {
    pub(super) fn new(path: &str) -> Self {
        Self { group: Group::new(path.into()), io: BTreeMap::new() }
    }

    pub(super) fn io(&mut self, device: Name) -> &mut GroupIo {
        let path = &self.group.path;
        self.io
            .entry(device)
            .or_insert_with_key(|device| GroupIo::new(LinkKey { upper: path.clone(), lower: device.clone() }))
    }

    /// Whether both rows have the same I/O counts.
    pub(super) fn has_io_of(&self, before: &Self) -> bool {
        self.io == before.io
    }

    /// Records that a hierarchy of this version has the cgroup.
    pub(super) fn note_version(&mut self, version: &str) {
        match self.group.version.get() {
            Some(noted) if noted.contains(version) => {}
            Some(_) => self.group.version = "v1+v2".into(),
            None => self.group.version = version.into(),
        }
    }

    /// Whether any hierarchy has the cgroup.
    pub(super) fn exist(&self) -> bool {
        self.group.version.get().is_some()
    }

    pub(super) fn copy_to(&self, out: &mut Snapshot) {
        if self.exist() {
            out.cgroup.group.push(self.group.clone());
            let identity = &self.group.identity;
            let io = self.io.values().map(|io| GroupIo { identity: identity.clone(), ..io.clone() });
            out.cgroup.group_io.extend(io);
        }
    }
}

/// Device names by number, valid for one sample: numbers are reused.
pub(super) struct DeviceNames<'r> {
    root: &'r Root,
    names: BTreeMap<String, Name>,
}

impl<'r> DeviceNames<'r> {
    pub(super) fn new(root: &'r Root) -> Self {
        Self { root, names: BTreeMap::new() }
    }

    /// Returns the name of the device with this `major:minor`; the number itself if the device no longer exists.
    pub(super) fn get(&mut self, number: &str) -> Name {
        if let Some(name) = self.names.get(number) {
            return name.clone();
        }
        let name = Name::from(device::by_number(self.root, number).unwrap_or_else(|| number.to_owned()));
        self.names.insert(number.to_owned(), name.clone());
        name
    }
}
