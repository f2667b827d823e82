//! Values of an answer.

use whyslow_rollup::Cell;

/// The words of a cell that has any.
pub fn text(cell: &Cell) -> Option<&str> {
    if let Cell::Text(text) = cell { Some(text) } else { None }
}

/// A whole number.
pub fn integer(cell: &Cell) -> Option<i64> {
    if let Cell::Integer(number) = cell { Some(*number) } else { None }
}

/// A number, whole or not.
pub fn double(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Double(number) => Some(*number),
        Cell::Integer(number) => Some(*number as f64),
        _ => None,
    }
}

/// A time, milliseconds since 1970.
pub fn timestamp(cell: &Cell) -> Option<i64> {
    if let Cell::Timestamp(ms) = cell { Some(*ms) } else { None }
}

/// True or false.
pub fn boolean(cell: &Cell) -> Option<bool> {
    if let Cell::Boolean(is) = cell { Some(*is) } else { None }
}
