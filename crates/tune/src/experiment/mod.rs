//! Trials of a change. The change is made and rolled back in interleaved pairs, in random order, and judged by the pairs' ratios:
//! drift and bursts of load then affect both sides alike, whereas a comparison of one block before with one after takes them for
//! an effect.

mod judge;
mod load;
mod log;
mod looks;
mod prepared;
mod run;
mod test_bed;
#[cfg(test)]
mod tests;

pub use load::{Load, Meter};
pub use log::{remember, remembered};
pub use looks::AlphaBudget;
pub use prepared::Prepared;
pub use run::{MetricValues, PAUSE, can_tell, run};
pub use test_bed::{LiveTestBed, TrialSetup};

use crate::Error;
use std::time::Duration;
use whyslow_compare::stats::paired::MOST_PAIRS;

/// A metric to be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricSpec {
    /// Its name and unit, for the record.
    pub name: String,
    /// Whether lower values are better.
    pub lower_is_better: bool,
}

/// Origin of a metric's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricSource {
    /// Duration of the command.
    Time,
    /// The last number that the command wrote to standard output.
    Number,
    /// The next value of the meter.
    Live,
}

/// Plan of an experiment, fixed before the first measurement.
#[derive(Clone, Debug)]
pub struct Design {
    /// The changes, for the record.
    pub changes: Vec<String>,
    /// The metric that the change should improve.
    pub target: MetricSpec,
    /// Metrics that must not get worse.
    pub guards: Vec<MetricSpec>,
    /// The metric through which the change works: it must improve in the given direction.
    pub mechanism: Option<MetricSpec>,
    /// Maximum number of pairs with and without the change.
    pub pairs: usize,
    /// Number of pairs without any change, measured first.
    pub noise_pairs: usize,
    /// Number of looks, the last after all pairs; the experiment ends at the first conclusive look.
    pub looks: usize,
    /// Time to wait after each switch before measuring.
    pub settle: Duration,
    /// The smallest effect of interest, as a ratio.
    pub delta: f64,
    /// Accepted rate of false positives.
    pub alpha: f64,
    /// Seed for the order within pairs.
    pub seed: u64,
}

impl Design {
    /// The fewest pairs whose agreement is significant (2 / 2^6 = 0.031), and the most whose sign flips are enumerated.
    pub const PAIRS: std::ops::RangeInclusive<usize> = 6..=MOST_PAIRS;

    /// The default rate of false positives.
    pub const ALPHA: f64 = 0.05;
}

/// Environment in which an experiment runs.
pub trait TestBed {
    /// Makes the change, or rolls it back.
    fn switch(&mut self, with: bool) -> Result<(), Error>;

    /// Waits; an interrupt ends the wait.
    fn wait(&mut self, time: Duration) -> Result<(), Error>;

    /// Measures once: a non-negative number for each metric of the design, the target first.
    fn measure(&mut self, step: usize, steps: usize) -> Result<MetricValues, Error>;
}
