//! Closed segments: Parquet files that any engine reads.
//!
//! ```text
//! TABLE/day=2026-11-21/16.parquet
//! ```
//!
//! A file holds one hour (UTC, by each segment's first sample) of one table: one or more row groups for each segment, sorted by
//! entity and time. Its columns are `at` (when the sample was taken), the key columns, and the metrics with the catalogue's
//! names and units. A histogram's column holds the number of values. Their distribution is in a table of its own,
//! `TABLE_METRIC`, with a row for each bucket at the segment's first sample and wherever its count changed: `at_least` is the
//! bucket's smallest value, `count` its count until the bucket's next row. Counts only grow, so a percentile is a sum in any engine.
//!
//! Segments are added by writing the whole file anew under a temporary name and renaming it: a file is complete at every moment,
//! and lists the segments it contains.

mod cell;
mod close;
mod footers;
mod hour;
mod layout;
mod pages;
mod read;
mod row_group;
#[cfg(test)]
mod tests;
mod transpose;

pub(crate) use cell::Cell;
pub(crate) use close::{ClosedTail, close};
pub(crate) use footers::FooterCache;
pub(crate) use hour::{HourFile, Segment, hour_files};
pub(crate) use layout::{AT_LEAST, COUNT, buckets_name};
pub(crate) use read::{Selection, read_rows};
pub use row_group::ParquetExport;
pub(crate) use transpose::TailByEntity;
