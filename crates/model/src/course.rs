//! A few columns of a family over a long time, as numbers.

/// A column that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sought {
    /// A counter or gauge, in the catalogue's unit.
    Number(&'static str),
    /// Whether a state is this word: 1 where it is, 0 where it is another.
    Is(&'static str, &'static str),
}

/// Rows of one family, entity by entity and each in the order of time. Where time does not go on another entity begins; one
/// that is not there any more may be followed by one that came later.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// When each row's sample was begun, nanoseconds since 1970.
    pub at: Vec<i64>,
    /// The columns in the order they were asked for; NaN where a value is absent.
    pub columns: Vec<Vec<f64>>,
}
