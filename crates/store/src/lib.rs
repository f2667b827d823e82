//! Recordings on disk: append, close into Parquet, read back, expire; and baselines.
//!
//! New samples go to an append-only log of changes (`tail`), flushed every second. Every ten minutes it is turned into
//! Parquet (`segment`), which any engine reads. Tables and columns are those of the catalogue (`schema`). Baselines are
//! in the same folder (`baselines`). Data that only has to last as long as the program is kept in memory instead
//! (`history`).

mod baselines;
mod bytes;
mod error;
mod folder;
mod frame;
mod history;
mod permissions;
mod recorder;
mod recording;
mod schema;
mod segment;
mod tail;

pub use baselines::{Baselines, read as read_baseline};
pub use error::{LogFn, StoreError};
pub use history::{History, HistoryLimits, HistoryPart};
pub use recorder::{Judge, JudgeFn, Recorder, Retention, SampleCounts, lower_priority};
pub use recording::{Extract, Families, RecordedLoss, Recording, SampleTimes, SegmentRef, WindowCutter, unpack};
pub use schema::{TimeRange, families};
pub use segment::ParquetExport;
