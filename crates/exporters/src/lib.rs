//! Turns Snapshots and a Diagnosis into series of metrics, and those into Prometheus text, remote-write and OTLP messages. No I/O.
//!
//! Names, units, types and help texts are derived from the catalogue ([`names`]). Which of its metrics are exported, and how many
//! entities of each family, is the [`Selection`]; [`Collector`] keeps that bound, whatever the machine has.

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
pub use selection::{Entities, Rows, SelectedFamily, Selection, SelectionError};
pub use series::{Buckets, Label, MetricFamily, OtelMetric, Series, SeriesKind, SeriesValue};
