//! Rows of any family, outside of Snapshots.

use crate::key::KeyPart;
use crate::value::Value;

/// A row of any family.
#[derive(Clone, Debug, PartialEq)]
pub struct AnyRow {
    /// Time of its sample, nanoseconds since 1970.
    pub at: i64,
    /// Time since boot at its sample, nanoseconds: for rates.
    pub clock: u64,
    /// The key, in the order of the family's key columns.
    pub key: Vec<KeyPart>,
    /// The metrics, in the family's order.
    pub values: Vec<Value>,
}

/// Time of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleTime {
    /// Nanoseconds since 1970.
    pub at: i64,
    /// Time since boot, nanoseconds.
    pub clock: u64,
    /// Number of the boot: differs between boots.
    pub boot: usize,
}

/// The columns of a family to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSelection {
    /// The family.
    pub family: &'static str,
    /// Positions in its metrics, ascending.
    pub metrics: Vec<usize>,
    /// For each sample whether to read its rows; `None` reads all.
    pub samples: Option<Vec<bool>>,
}

impl ColumnSelection {
    /// Returns whether the rows of a sample are selected.
    pub fn wants(&self, sample: usize) -> bool {
        self.samples.as_ref().is_none_or(|wanted| wanted.get(sample).copied().unwrap_or(false))
    }
}

/// The selected columns of an entity in a sample, or in several consecutive samples in which they are the same.
#[derive(Clone, Copy, Debug)]
pub struct ColumnReading<'r> {
    /// The position of the first sample among all of them.
    pub sample: usize,
    /// The position of the last one.
    pub until: usize,
    /// The entity's key, in the order of the family's key columns.
    pub key: &'r [KeyPart],
    /// The values, in the order of the selection.
    pub values: &'r [Value],
}

impl<'r> ColumnReading<'r> {
    /// Repeats the reading once for each of its samples.
    pub fn of_each_sample(self) -> impl Iterator<Item = ColumnReading<'r>> {
        (self.sample..=self.until).map(move |sample| ColumnReading { sample, until: sample, ..self })
    }
}
