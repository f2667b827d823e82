//! Stacking of block devices, from the mount down to the physical device.

use crate::catalogue::{Disk, Layer, Mount};
use crate::value::Name;
use crate::window::Window;
use std::collections::{BTreeMap, BTreeSet};

/// The block devices of a machine and how they are stacked.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    below: BTreeMap<Name, BTreeSet<Name>>,
    above: BTreeMap<Name, BTreeSet<Name>>,
    kind: BTreeMap<(Name, Name), Name>,
    mounts: BTreeMap<Name, Vec<Name>>,
}

impl Topology {
    /// Builds the topology from the newest readings of the window.
    pub fn from_window(window: &Window) -> Self {
        let mut t = Self::default();
        for (link, layer) in window.newest::<Layer>() {
            t.below.entry(link.upper.clone()).or_default().insert(link.lower.clone());
            t.above.entry(link.lower.clone()).or_default().insert(link.upper.clone());
            t.kind.insert((link.upper, link.lower), layer.kind.get().unwrap_or_default().into());
        }
        let devices = window.newest::<Disk>();
        for (point, mount) in window.newest::<Mount>() {
            if let Some(device) = mount.device.get().filter(|d| devices.contains_key(*d)) {
                t.mounts.entry(device.into()).or_default().push(point);
            }
        }
        t
    }

    /// Returns the devices directly below this one.
    pub fn below(&self, device: &str) -> impl Iterator<Item = &Name> {
        self.below.get(device).into_iter().flatten()
    }

    /// Returns the devices directly above this one.
    pub fn above(&self, device: &str) -> impl Iterator<Item = &Name> {
        self.above.get(device).into_iter().flatten()
    }

    /// Returns the mount points of this device itself.
    pub fn mounts(&self, device: &str) -> &[Name] {
        self.mounts.get(device).map_or(&[], Vec::as_slice)
    }

    /// Returns the relation between a device and the one directly below it: `partition`, `loop`, `dm`, `md`, `nvme`.
    pub fn relation(&self, upper: &str, lower: &str) -> Option<&str> {
        self.kind.get(&(upper.into(), lower.into())).map(|k| &**k)
    }

    /// Returns all devices below this one, without the device itself. A cycle, which no kernel creates, ends the walk.
    pub fn under(&self, device: &str) -> BTreeSet<Name> {
        Self::walk(&self.below, device)
    }

    /// Returns all devices above this one.
    pub fn over(&self, device: &str) -> BTreeSet<Name> {
        Self::walk(&self.above, device)
    }

    /// Returns whether this is a partition.
    pub fn is_partition(&self, device: &str) -> bool {
        self.below(device).any(|lower| self.relation(device, lower) == Some("partition"))
    }

    /// Returns the topmost devices above this one: those that requests enter through.
    pub fn leaves_over(&self, device: &str) -> impl Iterator<Item = Name> {
        self.over(device).into_iter().filter(|d| self.above(d).next().is_none())
    }

    /// Returns whether requests to `upper` end up on `lower`.
    pub fn rests_on(&self, upper: &str, lower: &str) -> bool {
        self.under(upper).contains(lower)
    }

    fn walk(edges: &BTreeMap<Name, BTreeSet<Name>>, from: &str) -> BTreeSet<Name> {
        let mut seen = BTreeSet::new();
        let mut next = vec![Name::from(from)];
        while let Some(at) = next.pop() {
            for to in edges.get(&at).into_iter().flatten() {
                if &**to != from && seen.insert(to.clone()) {
                    next.push(to.clone());
                }
            }
        }
        seen
    }
}

/// Major numbers of SCSI disks, in order; each covers sixteen disks of sixteen minor numbers.
const SCSI: [u32; 16] = [8, 65, 66, 67, 68, 69, 70, 71, 128, 129, 130, 131, 132, 133, 134, 135];

/// Returns the name of a device whose major number is fixed (Documentation/admin-guide/devices.txt); `None` for those
/// whose major number is assigned at boot.
pub fn device_by_number(major: u32, minor: u32) -> Option<String> {
    match major {
        3 if minor < 128 => Some(disk("hd", minor / 64, minor % 64)),
        22 if minor < 128 => Some(disk("hd", 2 + minor / 64, minor % 64)),
        7 => Some(format!("loop{minor}")),
        9 => Some(format!("md{minor}")),
        _ if minor < 256 => {
            let group = u32::try_from(SCSI.iter().position(|m| *m == major)?).ok()?;
            Some(disk("sd", group * 16 + minor / 16, minor % 16))
        }
        _ => None,
    }
}

fn disk(kind: &str, number: u32, partition: u32) -> String {
    let partition = if partition == 0 { String::new() } else { partition.to_string() };
    format!("{kind}{}{partition}", letters(number))
}

/// Formats a disk's letters: `a` to `z`, then `aa` and so on.
fn letters(number: u32) -> String {
    let last = char::from(b'a' + (number % 26) as u8);
    if number < 26 { last.to_string() } else { format!("{}{last}", letters(number / 26 - 1)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::LinkKey;
    use crate::snapshot::Snapshot;

    #[test]
    fn a_loop_device_on_a_file_rests_on_the_disk_below() {
        let mut s = Snapshot::default();
        for (upper, lower, kind) in [("loop0", "sda1", "loop"), ("sda1", "sda", "partition"), ("loop1", "sda1", "loop")]
        {
            let link = LinkKey { upper: upper.into(), lower: lower.into() };
            s.block.layer.push(Layer { kind: kind.into(), ..Layer::new(link) });
        }
        s.sort();
        let t = Topology::from_window(&Window::new(vec![Snapshot { boot_ns: 1, ..s }]));
        assert!(t.rests_on("loop0", "sda"));
        assert!(!t.rests_on("sda", "loop0"));
        assert_eq!(t.over("sda").len(), 3);
        assert_eq!(t.relation("loop0", "sda1"), Some("loop"));
    }

    #[test]
    fn numbers_become_names_where_they_are_fixed() {
        let name = |major, minor| device_by_number(major, minor).unwrap_or_default();
        assert_eq!((name(8, 144), name(8, 23), name(65, 161)), ("sdj".into(), "sdb7".into(), "sdaa1".into()));
        assert_eq!((name(3, 65), name(9, 1), name(252, 2)), ("hdb1".into(), "md1".into(), String::new()));
    }
}
