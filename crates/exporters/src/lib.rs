//! Converts Snapshots and a Diagnosis into metric series, and these into Prometheus text, remote-write and OTLP
//! messages. No I/O.
//!
//! Names, units, types and help texts are derived from the catalogue ([`names`]). The [`Selection`] decides which of
//! its metrics are exported, and for how many entities of each family; [`Collector`] keeps to that limit, whatever the
//! machine has.

mod collector;
#[cfg(test)]
mod dashboard_tests;
mod figures;
mod judgement;
pub mod names;
pub mod otlp;
mod ranking;
mod remote_write;
mod rows;
mod selection;
mod series;
pub mod text;

pub use collector::{Collector, OTHERS, has_begun_since};
pub use figures::{PushFigures, exporter_families, reserved_series};
pub use judgement::FindingSeries;
pub use ranking::most_active;
pub use remote_write::RemoteWrite;
pub use rows::{FactColumns, RowFacts};
pub use selection::{Entities, RowSelection, SelectedFamily, Selection, SelectionError};
pub use series::{Buckets, MetricFamily, OtelMetric, Series, SeriesKind, SeriesLabel, SeriesValue};
