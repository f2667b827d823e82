//! The tables of a recording and their columns, as the catalogue has them today and as a file describes them.
//!
//! Readers find tables and columns by name: they ignore those of a newer version, and treat those that an older version lacked
//! as absent. A name never changes its kind, unit or meaning.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use whyslow_model::catalogue::{EachFamily, Family, FamilyInfo, Metric, MetricKind, Unit};
use whyslow_model::key::{KeyPart, KeyPartKind};
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Value;

/// Times, nanoseconds since 1970.
pub type Span = RangeInclusive<i64>;

/// A row of any family.
#[derive(Clone, Debug, PartialEq)]
pub struct AnyRow {
    /// When its sample was taken, nanoseconds since 1970.
    pub at: i64,
    /// Time since boot at its sample, nanoseconds: for rates.
    pub clock: u64,
    /// The key, in the order of the family's key columns.
    pub key: Vec<KeyPart>,
    /// The metrics, in the family's order.
    pub values: Vec<Value>,
}

/// One family's rows on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The family's name.
    pub name: String,
    /// The columns that identify a row.
    pub keys: Vec<KeyField>,
    /// The metrics.
    pub metrics: Vec<MetricField>,
}

/// A key column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyField {
    /// The column's name.
    pub name: String,
    /// Number or text.
    pub kind: KeyPartKind,
}

/// A metric's column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetricField {
    /// The metric's name within its family.
    pub name: String,
    /// Counter, gauge, state or histogram.
    pub kind: MetricKind,
    /// The unit.
    pub unit: Unit,
}

impl Table {
    /// The table of a family.
    pub fn of<F: Family>() -> Self {
        Self::described(&F::INFO)
    }

    /// The table of a family's description.
    pub fn described(family: &FamilyInfo) -> Self {
        let key = |(name, kind): (&str, KeyPartKind)| KeyField { name: name.to_owned(), kind };
        let metric = |m: &Metric| MetricField { name: m.name.to_owned(), kind: m.kind, unit: m.unit };
        Self {
            name: family.name.to_owned(),
            keys: family.key_columns().map(key).collect(),
            metrics: family.metrics.iter().map(metric).collect(),
        }
    }
}

/// All tables of the catalogue, in its order, and last the table of sources.
pub fn tables() -> Vec<Table> {
    struct AllTables(Vec<Table>);
    impl EachFamily for AllTables {
        fn family<F: Family>(&mut self, _: &mut Vec<F>) {
            self.0.push(Table::of::<F>());
        }
    }
    let mut tables = AllTables(Vec::new());
    Snapshot::default().each_family(&mut tables);
    tables.0
}

/// The value of a metric that was not read.
pub(crate) fn absent(kind: MetricKind) -> Value {
    match kind {
        MetricKind::Counter => Value::Counter(Default::default()),
        MetricKind::Gauge => Value::Gauge(Default::default()),
        MetricKind::State => Value::State(Default::default()),
        MetricKind::Histogram => Value::Histogram(Default::default()),
    }
}
