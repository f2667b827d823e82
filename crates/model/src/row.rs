//! Rows of any family, outside of Snapshots.

use crate::key::KeyPart;
use crate::value::Value;

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

/// When a sample was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleTime {
    /// Nanoseconds since 1970.
    pub at: i64,
    /// Time since boot, nanoseconds.
    pub clock: u64,
    /// Differs between boots.
    pub boot: usize,
}

/// Which columns of a family to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSelection {
    /// The family.
    pub family: &'static str,
    /// Positions in its metrics, ascending.
    pub metrics: Vec<usize>,
    /// For each sample whether its rows are wanted; all, if that is `None`.
    pub samples: Option<Vec<bool>>,
}

impl ColumnSelection {
    /// Whether rows of a sample are wanted.
    pub fn wants(&self, sample: usize) -> bool {
        self.samples.as_ref().is_none_or(|wanted| wanted.get(sample).copied().unwrap_or(false))
    }
}

/// The selected columns of an entity in a sample, or in several consecutive ones in which they are the same.
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
    /// The same, once for each of the samples.
    pub fn of_each_sample(self) -> impl Iterator<Item = ColumnReading<'r>> {
        (self.sample..=self.until).map(move |sample| ColumnReading { sample, until: sample, ..self })
    }
}
