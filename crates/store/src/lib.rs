//! Recordings on disk: append, close into Parquet, read back, expire; and baselines.
//!
//! The running end is an append-only log of what changed (`tail`), flushed every second; every ten minutes it is closed
//! into Parquet (`segment`), which any engine reads. Tables and columns are those of the catalogue (`schema`). Baselines are
//! kept beside (`baselines`).

mod baselines;
mod bytes;
mod error;
mod flush;
mod folder;
mod frame;
mod recorder;
mod recording;
mod schema;
mod segment;
mod tail;

pub use baselines::{Baselines, read as read_baseline};
pub use error::StoreError;
pub use recorder::{Counts, Keep, Log, Recorder};
pub use recording::{AnyRow, Families, Lookout, Recording, Span, Stretch, families};
pub use schema::{Field, KeyField, Table, tables};
pub use segment::ParquetExport;
