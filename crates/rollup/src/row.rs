//! A row of a table.

use std::sync::Arc;

/// The cells of a row, in the order of the table's columns.
pub type Row = Vec<Cell>;

/// Maximum length of a text, bytes.
const MOST_TEXT: usize = 4096;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Unknown.
    Null,
    /// Milliseconds since 1970.
    Timestamp(i64),
    /// A whole number.
    Integer(i64),
    /// A number.
    Double(f64),
    /// Text. Untrusted: anything that displays it must escape it.
    Text(Arc<str>),
    /// True or false.
    Boolean(bool),
}

impl Cell {
    /// Creates a text cell.
    pub fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    /// Creates a text cell, or null.
    pub fn words(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::text)
    }

    /// Shortens text to at most 4 KiB: readers leave longer text out.
    pub fn bounded(self) -> Self {
        match self {
            Self::Text(text) if text.len() > MOST_TEXT => Self::text(&text[..text.floor_char_boundary(MOST_TEXT)]),
            other => other,
        }
    }

    /// Creates a number; null if it is unknown or not finite.
    pub fn number(number: Option<f64>) -> Self {
        number.filter(|number| number.is_finite()).map_or(Self::Null, Self::Double)
    }

    /// Creates a whole number; null if it is unknown.
    pub fn count(count: Option<u64>) -> Self {
        count.map_or(Self::Null, |count| Self::Integer(i64::try_from(count).unwrap_or(i64::MAX)))
    }
}
