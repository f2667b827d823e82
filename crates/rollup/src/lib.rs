//! Data that a host ships to the store of a fleet: an hour of its recording as rows per minute, episodes, and their
//! Parquet files.
//!
//! [`tables`] describes all tables, [`parquet`] writes one of them, and [`Place`] is the location of its file in the
//! store. [`HourRollup`] creates the rows of an hour from the readings of a recording. No I/O.

mod episodes;
mod family;
mod file;
mod hour;
mod judged;
mod place;
mod row;
mod table;
mod tables;

pub use file::{FileError, TableWriter, parquet, properties};
pub use hour::{HourRollup, MARGIN_NS, TableRows};
pub use place::{COMPACTED, File, Hour, INCOMING, Place, PlaceError, VERSION, host_in_path};
pub use row::{Cell, Row};
pub use table::{Column, ColumnKind, Table};
pub use tables::{AT, HOST, table, tables};
