//! Closed segments: Parquet that anybody reads.
//!
//! ```text
//! TABLE/day=2026-11-21/16.parquet
//! ```
//!
//! A file holds one hour (UTC, by the segment's first sample) of one table: a row group or more for each segment, sorted by
//! entity and time. Columns are `at` (when the sample was begun), what tells the rows apart, and the metrics as the
//! catalogue names them, in its units. A histogram's column holds how many values there were; their sizes are a table of
//! their own, `TABLE_METRIC`, a row for each bucket at the segment's first sample and wherever its count changed: `at_least` is
//! the smallest value it counts, `count` how many there were, until the bucket's next row. Both add up, so that a percentile is
//! a sum in any engine.
//!
//! A segment is added by writing the hour anew under another name and renaming that: a file is whole at every moment, and
//! says itself which segments are in it.

mod chunk;
mod close;
mod columns;
mod export;
mod gather;
mod hour;
mod layout;
mod read;
mod runs;
mod scan;
mod times;
mod told;

pub(crate) use close::close;
pub use export::ParquetExport;
pub(crate) use hour::{HourFile, SEGMENTS, Segment, hour_files};
pub(crate) use layout::{AT_LEAST, COUNT, buckets_name};
pub(crate) use read::{Cell, Wanted, read_rows};
pub(crate) use scan::scan_columns;
