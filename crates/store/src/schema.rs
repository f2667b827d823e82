//! Tables of a recording and their columns, according to today's catalogue and as described in a file.
//!
//! Readers find tables and columns by name. They ignore those of a newer version, and treat those that an older version
//! lacked as absent. A name never changes its kind, unit or meaning.

use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use whyslow_model::catalogue::{self, Family, FamilyInfo, Metric, MetricKind, Unit};
use whyslow_model::key::KeyPartKind;
use whyslow_model::snapshot::SourceReport;
use whyslow_model::value::Value;

/// A span of time, nanoseconds since 1970.
pub type TimeRange = RangeInclusive<i64>;

/// Rows of one family on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) name: String,
    /// The columns that identify a row.
    pub(crate) keys: Vec<KeyField>,
    pub(crate) metrics: Vec<MetricField>,
}

/// A key column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeyField {
    pub(crate) name: String,
    pub(crate) kind: KeyPartKind,
}

/// A metric's column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MetricField {
    pub(crate) name: String,
    pub(crate) kind: MetricKind,
    pub(crate) unit: Unit,
}

impl Table {
    pub(crate) fn for_family(family: &FamilyInfo) -> Self {
        let key = |(name, kind): (&str, KeyPartKind)| KeyField { name: name.to_owned(), kind };
        let metric = |m: &Metric| MetricField { name: m.name.to_owned(), kind: m.kind, unit: m.unit };
        Self {
            name: family.name.to_owned(),
            keys: family.key_columns().map(key).collect(),
            metrics: family.metrics.iter().map(metric).collect(),
        }
    }
}

/// Returns all families that a recording can have: those of the catalogue in its order, then the sources.
pub fn families() -> Vec<FamilyInfo> {
    let mut families = catalogue::families();
    families.push(SourceReport::INFO);
    families
}

/// Returns the tables of all families.
pub(crate) fn tables() -> Vec<Table> {
    families().iter().map(Table::for_family).collect()
}

/// Returns the value of a metric that was not read.
pub(crate) fn absent(kind: MetricKind) -> Value {
    match kind {
        MetricKind::Counter => Value::Counter(Default::default()),
        MetricKind::Gauge => Value::Gauge(Default::default()),
        MetricKind::State => Value::State(Default::default()),
        MetricKind::Histogram => Value::Histogram(Default::default()),
    }
}
