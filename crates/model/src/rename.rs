//! Replaces the names in rows that the catalogue marks ([`NameKind`]).
//!
//! Names are replaced before a diagnosis and before a recording, so that everything derived from the rows has the new
//! ones.

use crate::catalogue::{EachFamily, Family, FamilyInfo, MetricKind, NameKind};
use crate::key::{Key, KeyPart, KeyPartKind};
use crate::row::ColumnSelection;
use crate::snapshot::Snapshot;
use crate::subject::Subject;
use crate::value::{Name, Value};
use std::collections::BTreeMap;

/// Maps names to replacements. A name of a kind always has the same replacement, and no two names share one.
pub trait Renamer: Send + Sync {
    /// Returns the replacement of a column's text. Not called for [`NameKind::FindingKey`], [`NameKind::Subject`] and
    /// [`NameKind::Item`].
    fn name(&self, kind: NameKind, name: &Name) -> Name;

    /// Returns the replacement of the name of a finding's subject, by the kind of the subject.
    fn subject(&self, kind: &str, name: &str) -> String;

    /// Returns the replacement of the name of an inventory item, by its kind.
    fn item(&self, kind: &str, name: &str) -> String;
}

/// The columns of a row to rename: names on their own are renamed before the sentences that mention them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Alone,
    InSentences,
}

impl Pass {
    const ALL: [Self; 2] = [Self::Alone, Self::InSentences];

    fn has(self, kind: NameKind) -> bool {
        match kind {
            NameKind::Word => false,
            NameKind::Text | NameKind::Log => self == Self::InSentences,
            _ => self == Self::Alone,
        }
    }
}

impl Snapshot {
    /// Replaces the names in all rows.
    pub fn rename(&mut self, renamer: &dyn Renamer) {
        rename_all(std::slice::from_mut(self), renamer, None);
    }
}

/// The new texts of keys, by family and old text.
pub(crate) type RenamedKeys = BTreeMap<&'static str, BTreeMap<String, String>>;

/// Replaces the names in all rows of snapshots that belong together.
pub(crate) fn rename_all(snapshots: &mut [Snapshot], renamer: &dyn Renamer, mut keys: Option<&mut RenamedKeys>) {
    for pass in Pass::ALL {
        for snapshot in &mut *snapshots {
            snapshot.each_family(&mut RenameRows { renamer, pass, keys: keys.as_deref_mut() });
        }
    }
    snapshots.iter_mut().for_each(Snapshot::sort);
}

struct RenameRows<'r> {
    renamer: &'r dyn Renamer,
    pass: Pass,
    keys: Option<&'r mut RenamedKeys>,
}

impl EachFamily for RenameRows<'_> {
    fn family<F: Family>(&mut self, rows: &mut Vec<F>) {
        let columns: Vec<(usize, NameKind)> =
            named_columns(&F::INFO).filter(|(_, kind)| self.pass.has(*kind)).collect();
        let has_key = F::INFO.key_names.iter().any(|kind| self.pass.has(*kind));
        if columns.is_empty() && !has_key {
            return;
        }
        let mut parts = Vec::new();
        rows.retain_mut(|row| {
            for (column, kind) in &columns {
                let Some(Value::State(state)) = row.value(*column) else { continue };
                let Some(name) = state.name() else { continue };
                let new = match kind {
                    NameKind::Subject => self.renamer.subject(&words_of(row, "kind"), name).into(),
                    kind => self.renamer.name(*kind, name),
                };
                if new != *name {
                    row.put(*column, Value::State(new.into()));
                }
            }
            !has_key || self.rename_key(row, &mut parts).is_some()
        });
    }
}

impl RenameRows<'_> {
    /// Replaces the names in a row's key; `None` if the result is not a valid key, so that the row has to be dropped.
    fn rename_key<F: Family>(&mut self, row: &mut F, parts: &mut Vec<KeyPart>) -> Option<()> {
        parts.clear();
        row.key().take_apart(parts);
        let mut is_new = false;
        let thing = first_text(parts).cloned();
        for (part, kind) in named_parts(&F::INFO, parts).filter(|(_, kind)| self.pass.has(*kind)) {
            let new = match kind {
                NameKind::FindingKey => finding_key(row).into(),
                NameKind::Item => self.renamer.item(thing.as_deref().unwrap_or_default(), part).into(),
                kind => self.renamer.name(kind, part),
            };
            if new != *part {
                *part = new;
                is_new = true;
            }
        }
        if !is_new {
            return Some(());
        }
        let key = F::Key::put_together(&mut parts.drain(..))?;
        if let Some(keys) = &mut self.keys {
            keys.entry(F::INFO.name).or_default().insert(row.key().to_string(), key.to_string());
        }
        row.set_key(key);
        Some(())
    }
}

/// Returns the columns of a family that hold names.
fn named_columns(family: &FamilyInfo) -> impl Iterator<Item = (usize, NameKind)> {
    let named = family.metrics.iter().enumerate().filter(|(_, metric)| metric.kind == MetricKind::State);
    named.filter_map(|(column, metric)| Some((column, metric.names?)))
}

/// Returns the text parts of a key, each with the kind of name it holds.
fn named_parts<'p>(family: &FamilyInfo, parts: &'p mut [KeyPart]) -> impl Iterator<Item = (&'p mut Name, NameKind)> {
    let words = parts.iter_mut().filter_map(|part| match part {
        KeyPart::Text(name) => Some(name),
        KeyPart::Number(_) => None,
    });
    words.zip(family.key_names.iter().copied())
}

/// Returns the first text of a key: for inventory items, their kind.
fn first_text(parts: &[KeyPart]) -> Option<&Name> {
    parts.iter().find_map(|part| match part {
        KeyPart::Text(name) => Some(name),
        KeyPart::Number(_) => None,
    })
}

/// Builds the key of a recorded finding whose subject was renamed already.
fn finding_key<F: Family>(row: &F) -> String {
    let number = |name: &str| match named_value(row, name)? {
        Value::Gauge(gauge) => gauge.get().map(|number| number as u32),
        _ => None,
    };
    let netns = Some(words_of(row, "netns")).filter(|netns| !netns.is_empty());
    let subject = Subject {
        pid: number("pid"),
        tid: number("tid"),
        netns,
        ..Subject::new(&words_of(row, "kind"), words_of(row, "subject"))
    };
    subject.key_of(&words_of(row, "id"))
}

fn named_value<F: Family>(row: &F, name: &str) -> Option<Value> {
    row.value(F::INFO.metrics.iter().position(|metric| metric.name == name)?)
}

fn words_of<F: Family>(row: &F, name: &str) -> String {
    match named_value(row, name) {
        Some(Value::State(state)) => state.get().unwrap_or_default().to_owned(),
        _ => String::new(),
    }
}

/// Replaces the names in single columns of a family's rows. Rows of findings are not read this way.
pub struct ColumnRenamer<'r> {
    renamer: &'r dyn Renamer,
    key_names: Vec<Option<NameKind>>,
    value_names: Vec<Option<NameKind>>,
    /// The last key and its replacement: rows of an entity follow one another.
    last: (Vec<KeyPart>, Vec<KeyPart>),
    values: Vec<Value>,
}

impl<'r> ColumnRenamer<'r> {
    /// Creates a renamer for these columns of a family.
    pub fn new(renamer: &'r dyn Renamer, family: &FamilyInfo, selection: &ColumnSelection) -> Self {
        let mut names = family.key_names.iter().copied();
        let key_names = family.key_columns.iter().map(|column| match column.kind {
            KeyPartKind::Text => names.next(),
            KeyPartKind::Number => None,
        });
        let named = |column: &usize| family.metrics.get(*column).and_then(|metric| metric.names);
        Self {
            renamer,
            key_names: key_names.collect(),
            value_names: selection.metrics.iter().map(named).collect(),
            last: (Vec::new(), Vec::new()),
            values: Vec::new(),
        }
    }

    /// Returns the key and the values with new names.
    pub fn row(&mut self, key: &[KeyPart], values: &[Value]) -> (&[KeyPart], &[Value]) {
        if self.last.0 != key {
            let thing = first_text(key).map_or("", |kind| &**kind);
            let new = key.iter().zip(&self.key_names).map(|(part, names)| match (part, names) {
                (KeyPart::Text(name), Some(NameKind::Item)) => KeyPart::Text(self.renamer.item(thing, name).into()),
                (KeyPart::Text(name), Some(kind)) => KeyPart::Text(self.renamer.name(*kind, name)),
                _ => part.clone(),
            });
            self.last = (key.to_vec(), new.collect());
        }
        let new = values.iter().zip(&self.value_names).map(|(value, names)| match (value, names) {
            (Value::State(state), Some(kind)) => {
                Value::State(state.name().map(|name| self.renamer.name(*kind, name)).into())
            }
            _ => value.clone(),
        });
        self.values.clear();
        self.values.extend(new);
        (&self.last.1, &self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Connection, InventoryChange, LogLine, Process, RecordedFinding};
    use crate::key::{InventoryKey, SocketKey, TaskKey};

    /// Converts a name to capitals, with its kind before it; addresses become 192.0.2.1.
    struct Capitals;

    impl Renamer for Capitals {
        fn name(&self, kind: NameKind, name: &Name) -> Name {
            match kind {
                NameKind::Endpoint => "192.0.2.1:80".into(),
                _ => format!("{kind:?} {}", name.to_uppercase()).into(),
            }
        }

        fn subject(&self, kind: &str, name: &str) -> String {
            format!("{kind} {}", name.to_uppercase())
        }

        fn item(&self, kind: &str, name: &str) -> String {
            format!("{kind} {}", name.to_uppercase())
        }
    }

    #[test]
    fn names_in_keys_and_columns_are_replaced_and_other_words_are_not() {
        let mut s = Snapshot::default();
        let task = TaskKey { pid: 7, tid: 7, start: 1 };
        s.task.process.push(Process::new(task));
        (s.task.process[0].command, s.task.process[0].state) = ("db".into(), "R".into());
        s.kernel.log.push(LogLine { text: "oops".into(), ..LogLine::new(3) });
        let local = "10.0.0.1:9".parse().unwrap();
        s.net.connection.push(Connection::new(SocketKey { ns: "web".into(), local, ..SocketKey::default() }));
        s.rename(&Capitals);
        let process = &s.task.process[0];
        assert_eq!((process.command.get(), process.state.get()), (Some("Process DB"), Some("R")));
        assert_eq!(s.kernel.log[0].text.get(), Some("Log OOPS"));
        let key = &s.net.connection[0].socket;
        assert_eq!((&*key.ns, key.local), ("Namespace WEB", "192.0.2.1:80".parse().unwrap()));
    }

    #[test]
    fn the_key_of_a_finding_follows_its_subject() {
        let mut s = Snapshot::default();
        let found = RecordedFinding::new("cpu.saturated@db[7]@web".into());
        let found =
            RecordedFinding { id: "cpu.saturated".into(), kind: "process".into(), subject: "db".into(), ..found };
        s.kernel.finding.push(RecordedFinding { pid: 7.0.into(), netns: "web".into(), ..found });
        s.rename(&Capitals);
        assert_eq!(&*s.kernel.finding[0].key, "cpu.saturated@process DB[7]@Namespace WEB");
    }

    #[test]
    fn a_thing_of_the_inventory_is_replaced_by_its_kind() {
        let mut s = Snapshot::default();
        let thing = InventoryKey { kind: "unit".into(), name: "shop.service".into() };
        s.kernel.change.push(InventoryChange { new: "restarted".into(), ..InventoryChange::new(thing.clone()) });
        s.rename(&Capitals);
        assert_eq!(&*s.kernel.change[0].thing.name, "unit SHOP.SERVICE");
        let selection = ColumnSelection { family: InventoryChange::INFO.name, metrics: vec![], samples: None };
        let mut columns = ColumnRenamer::new(&Capitals, &InventoryChange::INFO, &selection);
        let key = [KeyPart::Text(thing.kind), KeyPart::Text(thing.name)];
        assert_eq!(columns.row(&key, &[]).0[1], KeyPart::Text("unit SHOP.SERVICE".into()));
    }

    #[test]
    fn rows_are_sorted_by_their_new_keys() {
        struct Reversed;
        impl Renamer for Reversed {
            fn name(&self, _: NameKind, name: &Name) -> Name {
                name.chars().rev().collect::<String>().into()
            }
            fn subject(&self, _: &str, name: &str) -> String {
                name.to_owned()
            }
            fn item(&self, _: &str, name: &str) -> String {
                name.to_owned()
            }
        }
        let mut s = Snapshot::default();
        for point in ["/az", "/by"] {
            s.block.mount.push(crate::catalogue::Mount::new(point.into()));
        }
        s.rename(&Reversed);
        assert_eq!(s.block.mount.iter().map(|mount| &*mount.point).collect::<Vec<_>>(), ["yb/", "za/"]);
    }
}
