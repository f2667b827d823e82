//! Turns counters over time into rates and charts. Pure: readings come from a Window or a recording.
//!
//! [`charts`] is the table of charts. Each is declared once, with the catalogue columns that it is computed from.
//! [`ChartBuilder`] takes readings and computes mean, minimum and maximum for each interval of a time axis. Entities may come in
//! any order, the readings of each in order of time. Counter wraps, resets, hot-plug and reboots are handled as in a Window, and
//! gaps stay gaps.
//!
//! [`charts_of_bench`], [`charts_of_trial`] and [`charts_of_walk`] draw results, by queue depth, block size or pair instead of
//! time.

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
