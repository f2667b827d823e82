//! Counters over time as rates, and the charts that they make. Pure: readings come from a Window or a recording.
//!
//! [`charts`] is the table of charts, each declared once with the columns of the catalogue that it is computed from. [`ChartBuilder`]
//! takes readings in any order of entities, each entity's in order of time, and computes mean, minimum and maximum for each
//! interval of a time axis. Wrap, reset, hot-plug and reboot are handled as in a Window, and gaps stay gaps.
//!
//! [`charts_of_bench`], [`charts_of_trial`] and [`charts_of_walk`] draw results, by queue depth, block size or pair instead of time.

mod axis;
mod builder;
mod heat;
mod line;
mod plot;
mod rates;
mod results;
mod step;
mod table;
mod window;

pub use axis::Samples;
pub use builder::{ChartAxes, ChartBuilder, SeriesNames};
pub use rates::RowRates;
pub use results::{charts_of_bench, charts_of_trial, charts_of_walk};
pub use step::{growth, is_same_entity};
pub use table::{ChartSpec, charts, charts_named};
pub use window::{ChartTimes, charts_of_window, has_times};
