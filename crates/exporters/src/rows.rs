//! Selects the rows of a family to export, and their names: the values of other rows are already included in these.

use crate::selection::{RowSelection, SelectedFamily};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_model::key::KeyPart;
use whyslow_model::value::{Name, Value};

/// Name under which all kernel threads are added up.
const KERNEL_THREADS: &str = "kernel threads";

/// Columns, besides the exported ones, that decide which rows are exported.
#[derive(Clone, Copy, Debug)]
pub struct FactColumns {
    identity: Option<usize>,
    kernel_thread: Option<usize>,
    name: Option<usize>,
    file_system: Option<usize>,
    file_system_type: Option<usize>,
}

/// Values of these columns in a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowFacts {
    /// The kernel's own number for the entity.
    pub identity: Option<Name>,
    /// Name under which it is added up, if that is not its key.
    pub name: Option<Name>,
    file_system: Option<Name>,
    file_system_type: Option<Name>,
}

impl FactColumns {
    /// Finds the columns of a family.
    pub fn for_family(selected: &SelectedFamily) -> Self {
        let metrics = selected.info.metrics;
        let column = |name: &str| metrics.iter().position(|metric| metric.name == name);
        let of_mounts = |name: &str| column(name).filter(|_| selected.rows == RowSelection::FileSystems);
        Self {
            identity: metrics.iter().position(|metric| metric.identifies),
            kernel_thread: column("kernel_thread").filter(|_| selected.named_by.is_some()),
            name: selected.named_by,
            file_system: of_mounts("number"),
            file_system_type: of_mounts("kind"),
        }
    }

    /// Returns their positions in the family.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        let all = [self.identity, self.kernel_thread, self.name, self.file_system, self.file_system_type];
        all.into_iter().flatten()
    }

    /// Reads their values in a row; `value` returns a column of the row.
    pub fn facts(&self, value: impl Fn(usize) -> Option<Value>) -> RowFacts {
        let words = |column: Option<usize>| match value(column?)? {
            Value::State(words) => words.name().cloned(),
            _ => None,
        };
        let is_kernel_thread = || match value(self.kernel_thread?)? {
            Value::Gauge(yes) => Some(yes.get()? == 1.0),
            _ => None,
        };
        let name = || match is_kernel_thread() {
            Some(true) => KERNEL_THREADS.into(),
            // A process without a name could not be read.
            _ => words(self.name).unwrap_or_default(),
        };
        RowFacts {
            identity: words(self.identity),
            name: self.name.map(|_| name()),
            file_system: words(self.file_system),
            file_system_type: words(self.file_system_type),
        }
    }
}

impl RowSelection {
    /// Returns whether each of these simultaneous rows is exported.
    pub fn are_exported(self, rows: &[(&[KeyPart], &RowFacts)]) -> Vec<bool> {
        match self {
            Self::All => vec![true; rows.len()],
            Self::Identified => {
                let is_known = rows.iter().any(|(_, facts)| facts.identity.is_some());
                rows.iter().map(|(_, facts)| !is_known || facts.identity.is_some()).collect()
            }
            Self::Leaves => {
                let parents = parents(rows.iter().filter_map(|(key, _)| path(key)));
                rows.iter().map(|(key, _)| path(key).is_none_or(|path| !parents.contains(path))).collect()
            }
            Self::FileSystems => {
                let mut shortest: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
                for (at, (key, facts)) in rows.iter().enumerate() {
                    let point = path(key).unwrap_or_default();
                    if facts.file_system_type.as_deref() == Some("overlay") {
                        continue;
                    }
                    // Without a number, each counts as its own file system.
                    let known = shortest.entry(facts.file_system.as_deref().unwrap_or(point)).or_insert((at, point));
                    if point.len() < known.1.len() {
                        *known = (at, point);
                    }
                }
                let mut exported = vec![false; rows.len()];
                for (at, _) in shortest.into_values() {
                    exported[at] = true;
                }
                exported
            }
        }
    }
}

/// Returns the key of a family whose key is a path.
fn path(key: &[KeyPart]) -> Option<&str> {
    match key.first() {
        Some(KeyPart::Text(path)) => Some(path),
        _ => None,
    }
}

/// Returns the groups that have groups below them.
fn parents<'p>(paths: impl Iterator<Item = &'p str>) -> BTreeSet<&'p str> {
    let mut parents = BTreeSet::new();
    for mut path in paths {
        while let Some((parent, name)) = path.rsplit_once('/') {
            if !name.is_empty() {
                parents.insert(if parent.is_empty() { "/" } else { parent });
            }
            path = parent;
        }
    }
    parents
}
