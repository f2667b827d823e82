//! One sample as the tail keeps it: what changed since the sample before.
//!
//! ```text
//! frame  = wall step, boot step, count of texts, text..., table..., 0
//! table  = 1 + its place in the header, edit..., 0
//! edit   = kind + 4 x count: 0 keep `count` rows (of none: the end), 1 drop `count` rows,
//!          2 keep `count` rows and change the next, 3 keep `count` rows and insert one
//! change = a bit for each metric that changed, then the new value of each
//! insert = the key's values, then a change of a row in which all is absent
//! ```
//!
//! Numbers are spelt as in [`bytes`](crate::bytes), and text is named by its place among all texts since the header. A
//! table that is not in a frame was not read; its next rows are told by those it had last. Nothing is lost: what is read
//! back equals what was written, bit for bit.

mod decode;
mod encode;
mod value;

pub(crate) use decode::{Change, Edit, Frame, Row, TableEdits, Texts};
pub(crate) use encode::Encoder;

use crate::bytes::Damaged;

/// What an edit does, in its lowest two bits.
const KEEP: u64 = 0;
const DROP: u64 = 1;
const CHANGE: u64 = 2;
const INSERT: u64 = 3;

/// The bytes that hold a bit for each of so many metrics.
fn bitmap_length(metrics: usize) -> usize {
    metrics.div_ceil(8)
}

/// Splits an edit into its kind and its count.
fn kind_and_count(edit: u64) -> (u64, usize) {
    (edit & 3, usize::try_from(edit >> 2).unwrap_or(usize::MAX))
}

type Result<T> = std::result::Result<T, Damaged>;
