//! Columns of a family over time, as numbers.

/// A column, and how it becomes a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnSelector {
    /// A counter or gauge, in the catalogue's unit.
    Number(&'static str),
    /// Whether a state has this value: 1 or 0.
    Is(&'static str, &'static str),
}

impl ColumnSelector {
    /// The metric.
    pub fn name(&self) -> &'static str {
        let (Self::Number(name) | Self::Is(name, _)) = self;
        name
    }
}

/// Rows of a family, entity by entity, each in order of time. A time not later than the previous one starts another entity; an
/// entity may also follow one that disappeared before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeSeries {
    /// When each row's sample was taken, nanoseconds since 1970.
    pub at: Vec<i64>,
    /// A column for each selector; NaN for absent values.
    pub columns: Vec<Vec<f64>>,
}
