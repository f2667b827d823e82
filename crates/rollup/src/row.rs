//! A row of a table.

use std::sync::Arc;

/// The cells of a row, in the order of the table's columns.
pub type Row = Vec<Cell>;

/// The longest text, bytes.
const MOST_TEXT: usize = 4096;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Not known.
    Null,
    /// Milliseconds since 1970.
    Timestamp(i64),
    /// A whole number.
    Integer(i64),
    /// A number.
    Double(f64),
    /// Words. The text is not trusted: whoever draws it escapes it.
    Text(Arc<str>),
    /// True or false.
    Boolean(bool),
}

impl Cell {
    /// Words.
    pub fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    /// Words, or null.
    pub fn words(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::text)
    }

    /// The same with words of at most 4 KiB: readers leave longer ones out.
    pub fn bounded(self) -> Self {
        match self {
            Self::Text(text) if text.len() > MOST_TEXT => Self::text(&text[..text.floor_char_boundary(MOST_TEXT)]),
            other => other,
        }
    }

    /// A number; null if it is not known or not finite.
    pub fn number(number: Option<f64>) -> Self {
        number.filter(|number| number.is_finite()).map_or(Self::Null, Self::Double)
    }

    /// A whole number; null if it is not known.
    pub fn count(count: Option<u64>) -> Self {
        count.map_or(Self::Null, |count| Self::Integer(i64::try_from(count).unwrap_or(i64::MAX)))
    }
}
