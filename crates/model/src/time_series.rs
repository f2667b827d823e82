//! Columns of one family over time, as numbers.

/// Which column, and how it becomes a number.
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

/// Rows of one family, entity by entity, each in order of time. A time that is not later than the one before starts another
/// entity; an entity may also be followed by one that appeared after it had gone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeSeries {
    /// When each row's sample was taken, nanoseconds since 1970.
    pub at: Vec<i64>,
    /// A column for each selector; NaN for absent values.
    pub columns: Vec<Vec<f64>>,
}
