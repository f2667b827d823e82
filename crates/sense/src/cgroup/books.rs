//! The rows of groups while they are put together from several hierarchies.

use crate::Root;
use crate::block::device;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{Group, GroupIo};
use whyslow_model::key::Pair;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Name;

/// Rows by path, and by path and device.
pub(super) struct Books<'r> {
    root: &'r Root,
    groups: BTreeMap<String, Group>,
    io: BTreeMap<Pair, GroupIo>,
    /// Names of devices by number; valid for one reading, as numbers are given out anew.
    devices: BTreeMap<String, Name>,
}

impl<'r> Books<'r> {
    pub(super) fn new(root: &'r Root) -> Self {
        Self { root, groups: BTreeMap::new(), io: BTreeMap::new(), devices: BTreeMap::new() }
    }

    /// The row of a group.
    pub(super) fn group(&mut self, path: &str) -> &mut Group {
        if !self.groups.contains_key(path) {
            self.groups.insert(path.to_owned(), Group::new(path.into()));
        }
        self.groups.get_mut(path).expect("inserted above where it was missing")
    }

    /// The row of a group and the device with this `major:minor`, which stands for the name of a device that is gone.
    pub(super) fn io(&mut self, path: &str, number: &str) -> &mut GroupIo {
        let lower = match self.devices.get(number) {
            Some(name) => name.clone(),
            None => {
                let name = Name::from(device::by_number(self.root, number).unwrap_or_else(|| number.to_owned()));
                self.devices.insert(number.to_owned(), name.clone());
                name
            }
        };
        let link = Pair { upper: self.group(path).path.clone(), lower };
        self.io.entry(link).or_insert_with_key(|link| GroupIo::new(link.clone()))
    }

    /// Notes that a hierarchy of this version knows something of a group.
    pub(super) fn note_version(&mut self, path: &str, version: &str) {
        let group = self.group(path);
        match group.version.get() {
            Some(noted) if noted != version => group.version = "v1+v2".into(),
            _ => group.version = version.into(),
        }
    }

    /// Hands the rows over; a group of which nothing is known has none.
    pub(super) fn close(self, out: &mut Snapshot) {
        out.cgroup.group.extend(self.groups.into_values().filter(|g| g.version.get().is_some()));
        out.cgroup.group_io.extend(self.io.into_values());
    }
}
