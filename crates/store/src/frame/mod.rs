//! One sample as stored in the tail: the changes since the previous sample.
//!
//! ```text
//! frame  = wall step, boot step, count of texts, text..., table..., 0
//! table  = 1 + its index in the header, edit..., 0
//! edit   = kind + 4 x count: 0 keep `count` rows (0 rows: the end), 1 drop `count` rows,
//!          2 keep `count` rows and change the next, 3 keep `count` rows and insert one
//! change = a bit for each metric that changed, then the new value of each
//! insert = the key's values, then a change relative to a row in which everything is absent
//! ```
//!
//! Numbers are encoded as in [`bytes`](crate::bytes); a text is referred to by its index among all texts since the header. A
//! table that is missing in a frame was not read; its next rows are relative to the last ones. The encoding is lossless, bit for
//! bit. A state is a frame, relative to nothing, of everything that the next frame is relative to.

mod decode;
mod encode;
mod value;

pub(crate) use decode::{DecodedFrame, Edit, EncodedChange, TableEdits, Texts, absent_row};
pub(crate) use encode::FrameEncoder;

use crate::bytes::Damaged;

/// Kind of an edit, in its lowest two bits.
const KEEP: u64 = 0;
const DROP: u64 = 1;
const CHANGE: u64 = 2;
const INSERT: u64 = 3;

fn bitmap_length(metrics: usize) -> usize {
    metrics.div_ceil(8)
}

fn kind_and_count(edit: u64) -> (u64, usize) {
    (edit & 3, usize::try_from(edit >> 2).unwrap_or(usize::MAX))
}

type Result<T> = std::result::Result<T, Damaged>;
