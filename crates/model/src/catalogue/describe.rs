//! What the catalogue says of a metric.

use crate::key::{KeyColumn, PartKind};
use serde::{Deserialize, Serialize};

/// How a metric's readings relate to one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Only grows; what matters is the difference of two readings.
    Counter,
    /// A level; each reading stands for itself.
    Gauge,
    /// Words: a setting or a condition.
    State,
    /// How often each size of value occurred; what matters is the difference of two readings.
    Histogram,
}

/// The unit a raw reading is held in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Things counted.
    #[serde(rename = "count")]
    Count,
    /// A ratio, 0..1.
    #[serde(rename = "ratio")]
    Ratio,
    /// Bits per second.
    #[serde(rename = "bit/s")]
    BitsPerSecond,
    /// Hertz.
    #[serde(rename = "Hz")]
    Hertz,
    /// Degrees Celsius.
    #[serde(rename = "Cel")]
    Celsius,
    /// No unit: words.
    #[serde(rename = "text")]
    Text,
}

/// One metric of a family, as described in the catalogue.
#[derive(Clone, Debug, Serialize)]
pub struct Metric {
    /// The name within its family; also the struct field and the column.
    pub name: &'static str,
    /// Counter, gauge, state or histogram.
    pub kind: Kind,
    /// The unit raw readings are in.
    pub unit: Unit,
    /// The OpenTelemetry name, `system.*` or `process.*` where the semantic conventions have one.
    pub otel: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// The reading at which the kernel's counter starts over at zero; absent for one of 64 bits, which never gets there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wraps_at: Option<u64>,
    /// Whether it tells an entity from another that had its name before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub identifies: bool,
}

/// A family of metrics: one row per entity, one column per metric.
#[derive(Clone, Debug, Serialize)]
pub struct FamilyInfo {
    /// The family's name; also its table in a Snapshot and on disk.
    pub name: &'static str,
    /// Names it had in earlier versions, which recordings and commands may still use.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub former_names: &'static [&'static str],
    /// What tells its rows apart.
    pub key: &'static str,
    /// The columns of that.
    pub key_columns: &'static [KeyColumn],
    /// Where the kernel keeps it.
    pub source: &'static str,
    /// One sentence on what a row is.
    pub help: &'static str,
    /// Its metrics, in column order.
    pub metrics: &'static [Metric],
}

impl FamilyInfo {
    /// Whether this is its name, or was.
    pub fn is_named(&self, name: &str) -> bool {
        self.name == name || self.former_names.contains(&name)
    }

    /// Names and kinds of the columns that tell its rows apart.
    pub fn key_columns(&self) -> impl Iterator<Item = (&'static str, PartKind)> {
        let key = self.key;
        self.key_columns.iter().map(move |column| (column.name.unwrap_or(key), column.kind))
    }
}
