//! Did it help? A change is made and rolled back in interleaved pairs, in random order, and judged by the pairs' ratios: drift
//! and bursts of load then hit both sides alike, where a block before against a block after takes them for an effect.

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

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricSpec {
    /// Its name and unit, for the record.
    pub name: String,
    /// Whether less of it is better.
    pub lower_is_better: bool,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricSource {
    /// How long the command took.
    Time,
    /// The last number it wrote to standard output.
    Number,
    /// The meter: its next value.
    Live,
}

/// How an experiment is laid out; all of it is fixed before the first measurement.
#[derive(Clone, Debug)]
pub struct Design {
    /// What is changed, for the record.
    pub changes: Vec<String>,
    /// What the change is for.
    pub target: MetricSpec,
    /// What must not get worse.
    pub guards: Vec<MetricSpec>,
    /// What the change works through: it must get better, in the sense given.
    pub mechanism: Option<MetricSpec>,
    /// Pairs with and without the change, at most.
    pub pairs: usize,
    /// Pairs without any change, before.
    pub noise_pairs: usize,
    /// How often it is looked at, the last time after all pairs; it ends at the first look that tells.
    pub looks: usize,
    /// How long is waited after each switch before anything is measured.
    pub settle: Duration,
    /// The smallest effect of interest, as a ratio.
    pub delta: f64,
    /// How often an effect of nothing may be taken for one.
    pub alpha: f64,
    /// Where the order of pairs comes from.
    pub seed: u64,
}

impl Design {
    /// The fewest pairs of which all agreeing is no accident (2 / 2^6 = 0.031), and the most that are flipped one by one.
    pub const PAIRS: std::ops::RangeInclusive<usize> = 6..=MOST_PAIRS;

    /// The default rate of false positives.
    pub const ALPHA: f64 = 0.05;
}

/// What an experiment is made with.
pub trait TestBed {
    /// Makes the change, or rolls it back.
    fn switch(&mut self, with: bool) -> Result<(), Error>;

    /// Waits; an interrupt ends it.
    fn wait(&mut self, time: Duration) -> Result<(), Error>;

    /// Measures once: a number that is not negative for each metric of the design, what the change is for first.
    fn measure(&mut self, step: usize, steps: usize) -> Result<MetricValues, Error>;
}
