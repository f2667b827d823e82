//! Inventory of a machine (hardware, packages, settings) and its changes, from the rows of `inventory` and `change`.
//!
//! A sample with rows of `inventory` has the complete inventory. In between, `change` has the changes. Changes made
//! while nothing was recorded are the difference between two inventories.

use crate::catalogue::{InventoryChange, InventoryItem};
use crate::key::InventoryKey;
use crate::snapshot::Snapshot;
use crate::value::Name;
use std::collections::{BTreeMap, BTreeSet};

/// Kind of changes of systemd units, which have no version or value.
pub const UNIT: &str = "unit";
/// New value in a change that reports a restarted unit.
pub const RESTARTED: &str = "restarted";
/// Longest value in a sentence; longer ones are cut off.
const LONGEST: usize = 60;

/// An item of the inventory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InventoryEntry {
    /// Its kind: `package`, `sysctl`, `firmware`.
    pub kind: Name,
    /// Its name.
    pub name: Name,
    /// Its version or value.
    pub value: Name,
}

/// A change of the machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MachineChange {
    /// Time of the change, or of its detection; nanoseconds since 1970.
    pub at: i64,
    /// Kind of the item.
    pub kind: Name,
    /// Name of the item.
    pub name: Name,
    /// Its value before; `None` if it was added, or if a unit was restarted.
    pub old: Option<Name>,
    /// Its value since; `None` if it was removed. For a unit, [`RESTARTED`].
    pub new: Option<Name>,
}

impl MachineChange {
    /// Describes the change in a few words. Names are not escaped.
    pub fn in_words(&self) -> String {
        let what = format!("{} {}", self.kind, self.name);
        match (&self.old, &self.new) {
            (_, Some(new)) if *self.kind == *UNIT => format!("{what} {new}"),
            (Some(old), Some(new)) => format!("{what}: was {}, is {}", short(old), short(new)),
            (None, Some(new)) => format!("{what} added: {}", short(new)),
            (Some(old), None) => format!("{what} removed: {}", short(old)),
            (None, None) => what,
        }
    }
}

/// Shortens a long value; puts an empty one in quotes, so that it is visible.
fn short(value: &str) -> String {
    match value.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None if value.is_empty() => "\"\"".to_owned(),
        None => value.to_owned(),
    }
}

/// Inventory as of the last sample taken.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineInventory {
    things: BTreeMap<InventoryKey, Name>,
    at: Option<i64>,
}

impl MachineInventory {
    /// Takes the rows of the next sample, and returns the changes, by kind and name.
    pub fn take(&mut self, sample: &Snapshot) -> Vec<MachineChange> {
        let mut changes: Vec<MachineChange> =
            sample.kernel.change.iter().map(|row| self.take_change(row, sample.wall_ns)).collect();
        if !sample.kernel.inventory.is_empty() {
            self.take_all(&sample.kernel.inventory, sample.wall_ns, &mut changes);
        }
        changes
    }

    /// Returns all items, by kind and name; none until an inventory was taken.
    pub fn entries(&self) -> impl Iterator<Item = InventoryEntry> {
        self.things.iter().filter(|_| self.at.is_some()).map(|(thing, value)| InventoryEntry {
            kind: thing.kind.clone(),
            name: thing.name.clone(),
            value: value.clone(),
        })
    }

    /// Returns the time of the last complete inventory, nanoseconds since 1970; `None` if there was none.
    pub fn at(&self) -> Option<i64> {
        self.at
    }

    fn take_change(&mut self, row: &InventoryChange, seen: i64) -> MachineChange {
        let (old, new) = (row.old.name().cloned(), row.new.name().cloned());
        match &new {
            _ if *row.thing.kind == *UNIT => {}
            Some(new) => drop(self.things.insert(row.thing.clone(), new.clone())),
            None => drop(self.things.remove(&row.thing)),
        }
        let at = row.time.get().and_then(|time| i64::try_from(time).ok()).map_or(seen, |time| time.min(seen));
        MachineChange { at, kind: row.thing.kind.clone(), name: row.thing.name.clone(), old, new }
    }

    /// Takes a complete inventory. Keeps the items of kinds that it lacks: they could not be read.
    fn take_all(&mut self, rows: &[InventoryItem], at: i64, changes: &mut Vec<MachineChange>) {
        let kinds: BTreeSet<&Name> = rows.iter().map(|row| &row.thing.kind).collect();
        let (before, mut now): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.things).into_iter().partition(|(thing, _)| kinds.contains(&thing.kind));
        let of_rows = rows.iter().filter_map(|row| Some((row.thing.clone(), row.value.name()?.clone())));
        now.extend(of_rows);
        if self.at.replace(at).is_some() {
            // The first reading of a kind is not a change.
            let known: BTreeSet<&Name> = before.keys().map(|thing| &thing.kind).collect();
            let change = |thing: &InventoryKey, old: Option<&Name>, new: Option<&Name>| MachineChange {
                at,
                kind: thing.kind.clone(),
                name: thing.name.clone(),
                old: old.cloned(),
                new: new.cloned(),
            };
            let gone = before.iter().filter(|(thing, _)| !now.contains_key(*thing));
            changes.extend(gone.map(|(thing, old)| change(thing, Some(old), None)));
            let of_known = now.iter().filter(|(thing, _)| known.contains(&thing.kind));
            let changed = of_known.map(|(thing, new)| (thing, before.get(thing), new));
            changes.extend(
                changed
                    .filter(|(_, old, new)| *old != Some(*new))
                    .map(|(thing, old, new)| change(thing, old, Some(new))),
            );
            changes.sort();
        }
        self.things = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thing(kind: &str, name: &str) -> InventoryKey {
        InventoryKey { kind: kind.into(), name: name.into() }
    }

    fn whole(at: i64, rows: &[(&str, &str, &str)]) -> Snapshot {
        let mut sample = Snapshot { wall_ns: at, ..Snapshot::default() };
        let row = |(kind, name, value): &(&str, &str, &str)| InventoryItem {
            value: (*value).into(),
            ..InventoryItem::new(thing(kind, name))
        };
        sample.kernel.inventory = rows.iter().map(row).collect();
        sample
    }

    fn words(changes: &[MachineChange]) -> Vec<(i64, String)> {
        changes.iter().map(|change| (change.at, change.in_words())).collect()
    }

    #[test]
    fn two_inventories_show_what_changed_between_them() {
        let mut inventory = MachineInventory::default();
        assert_eq!(inventory.entries().count(), 0);
        let before = [("kernel", "release", "6.1"), ("package", "bash", "5.1"), ("package", "nginx", "1.2")];
        assert_eq!(inventory.take(&whole(10, &before)), [], "the first is no change");
        let after = [("kernel", "release", "6.2"), ("package", "bash", "5.1"), ("package", "zsh", "")];
        let changes = inventory.take(&whole(20, &after));
        assert_eq!(
            words(&changes),
            [
                (20, "kernel release: was 6.1, is 6.2".to_owned()),
                (20, "package nginx removed: 1.2".to_owned()),
                (20, "package zsh added: \"\"".to_owned()),
            ]
        );
        assert_eq!(inventory.at(), Some(20));
        assert_eq!(inventory.entries().count(), 3);
        assert_eq!(inventory.take(&whole(30, &after)), [], "nothing changed");
    }

    #[test]
    fn a_kind_that_could_not_be_read_did_not_change() {
        let mut inventory = MachineInventory::default();
        inventory.take(&whole(10, &[("kernel", "release", "6.1")]));
        let both = [("kernel", "release", "6.1"), ("package", "bash", "5.1")];
        assert_eq!(inventory.take(&whole(20, &both)), [], "packages were not read before");
        assert_eq!(inventory.take(&whole(30, &both[..1])), [], "packages are not read now");
        assert_eq!(
            words(&inventory.take(&whole(40, &[("package", "bash", "5.2")])))[0].1,
            "package bash: was 5.1, is 5.2"
        );
    }

    #[test]
    fn changes_in_between_are_in_the_inventory() {
        let mut inventory = MachineInventory::default();
        inventory.take(&whole(10, &[("sysctl", "vm.swappiness", "60")]));
        let mut sample = Snapshot { wall_ns: 20, ..Snapshot::default() };
        sample.kernel.change = vec![
            InventoryChange {
                old: "60".into(),
                new: "10".into(),
                time: 15.into(),
                ..InventoryChange::new(thing("sysctl", "vm.swappiness"))
            },
            InventoryChange {
                new: RESTARTED.into(),
                time: 99.into(),
                ..InventoryChange::new(thing(UNIT, "a.service"))
            },
        ];
        let changes = inventory.take(&sample);
        let expected = [(15, "sysctl vm.swappiness: was 60, is 10"), (20, "unit a.service restarted")];
        assert_eq!(words(&changes), expected.map(|(at, what)| (at, what.to_owned())), "none is later than it was seen");
        assert_eq!(inventory.entries().map(|entry| entry.value).collect::<Vec<_>>(), [Name::from("10")]);
        assert_eq!(inventory.take(&whole(30, &[("sysctl", "vm.swappiness", "10")])), []);
    }

    #[test]
    fn a_long_value_is_cut_off_between_characters() {
        let change = MachineChange {
            at: 0,
            kind: "sysctl".into(),
            name: "a".into(),
            old: None,
            new: Some("ä".repeat(61).into()),
        };
        assert_eq!(change.in_words(), format!("sysctl a added: {}…", "ä".repeat(60)));
    }
}
