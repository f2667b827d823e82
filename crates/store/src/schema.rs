//! What is in a recording: tables and their columns, as the catalogue has them today and as a file describes them.
//!
//! A file names its tables and columns, and a reader finds them by name. So a program of today reads the fields it knows
//! of a recording of tomorrow, and finds those absent that a recording of yesterday lacks. A name never changes its
//! kind, its unit or its meaning.

use serde::{Deserialize, Serialize};
use whyslow_model::catalogue::{EachFamily, Family, FamilyInfo, Kind, Metric, Unit};
use whyslow_model::key::PartKind;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Value;

/// A table: what one family's rows look like on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The family's name.
    pub name: String,
    /// The columns that tell its rows apart.
    pub keys: Vec<KeyField>,
    /// Its metrics.
    pub metrics: Vec<Field>,
}

/// A column of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyField {
    /// Its name.
    pub name: String,
    /// What is in it.
    pub kind: PartKind,
}

/// A metric's column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// The metric's name within its family.
    pub name: String,
    /// Counter, gauge, state or histogram.
    pub kind: Kind,
    /// What it is counted in.
    pub unit: Unit,
}

impl Table {
    /// The table of a family.
    pub fn of<F: Family>() -> Self {
        Self::described(&F::INFO)
    }

    /// The table of the family that is described so.
    pub fn described(family: &FamilyInfo) -> Self {
        let key = |(name, kind): (&str, PartKind)| KeyField { name: name.to_owned(), kind };
        let metric = |m: &Metric| Field { name: m.name.to_owned(), kind: m.kind, unit: m.unit };
        Self {
            name: family.name.to_owned(),
            keys: family.key_columns().map(key).collect(),
            metrics: family.metrics.iter().map(metric).collect(),
        }
    }
}

/// Every table the catalogue has, in its order, and last how the sources fared.
pub fn tables() -> Vec<Table> {
    struct Tables(Vec<Table>);
    impl EachFamily for Tables {
        fn family<F: Family>(&mut self, _: &mut Vec<F>) {
            self.0.push(Table::of::<F>());
        }
    }
    let mut tables = Tables(Vec::new());
    Snapshot::default().each_family(&mut tables);
    tables.0
}

/// The value of a metric that was not read.
pub(crate) fn absent(kind: Kind) -> Value {
    match kind {
        Kind::Counter => Value::Counter(Default::default()),
        Kind::Gauge => Value::Gauge(Default::default()),
        Kind::State => Value::State(Default::default()),
        Kind::Histogram => Value::Histogram(Default::default()),
    }
}
