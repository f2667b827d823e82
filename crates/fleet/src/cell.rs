//! Accessors for the values of an answer.

use whyslow_rollup::Cell;

/// Returns the text of a cell.
pub fn text(cell: &Cell) -> Option<&str> {
    if let Cell::Text(text) = cell { Some(text) } else { None }
}

/// Returns the value of an integer cell.
pub fn integer(cell: &Cell) -> Option<i64> {
    if let Cell::Integer(number) = cell { Some(*number) } else { None }
}

/// Returns the value of a numeric cell, integer or floating point.
pub fn double(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Double(number) => Some(*number),
        Cell::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

/// Returns a timestamp in milliseconds since 1970.
pub fn timestamp(cell: &Cell) -> Option<i64> {
    if let Cell::Timestamp(ms) = cell { Some(*ms) } else { None }
}

/// Returns the value of a boolean cell.
pub fn boolean(cell: &Cell) -> Option<bool> {
    if let Cell::Boolean(is) = cell { Some(*is) } else { None }
}
