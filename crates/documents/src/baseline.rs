//! Baselines: what a machine measured over a good period or in a benchmark, saved for comparison. `whyslow.baseline/1` is a
//! public interface, described in docs/compare.md: fields may be added, existing ones do not change.

pub use whyslow_model::normal::Better;

use crate::diagnosis::Subject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use whyslow_model::histogram::{Histogram, middle};

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.baseline/1";

/// A summary that can be compared with another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Baseline {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The name it was saved under; empty if it was not saved.
    pub name: String,
    /// What kind of measurement it summarizes.
    pub kind: BaselineKind,
    /// Start time, RFC 3339; `null` if unknown.
    pub start: Option<String>,
    /// End time.
    pub end: Option<String>,
    /// Duration, seconds.
    pub seconds: f64,
    /// Hardware, kernel and settings of the machine.
    pub inventory: Inventory,
    /// The measured series.
    pub series: Vec<BaselineSeries>,
}

/// What a baseline summarizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BaselineKind {
    /// Observation of a machine whose workload was not controlled.
    Period,
    /// A benchmark, whose load is known.
    Bench,
    /// The output of other tools.
    Captures,
}

/// Hardware, firmware, kernel, settings and mounts: name (`kernel`, `disk vda: scheduler`) and value, as the system
/// spells them. The text is untrusted: anything that displays it must escape it.
pub type Inventory = BTreeMap<String, String>;

/// Repeated measurements of one quantity.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BaselineSeries {
    /// The name of the signal or benchmark result. Together with the subject it identifies a series within a baseline, and its
    /// counterpart in another one.
    pub metric: String,
    /// The entity that was measured.
    pub subject: Subject,
    /// The unit of values, as in the diagnosis document: s, bytes, bytes/s, 1/s, ratio, count, bit/s.
    pub unit: String,
    /// Whether higher is better; `null` if that depends: a disk that reads more may be faster or just busier.
    pub better: Option<Better>,
    /// The length in seconds of the consecutive intervals that the samples are means of; `null` if each sample was measured
    /// independently, such as repeats of a benchmark.
    pub interval: Option<f64>,
    /// Samples, in order of time.
    pub samples: Vec<f64>,
    /// The distribution of single values, which samples that are means do not show.
    #[serde(default)]
    pub distribution: Distribution,
    /// The experiment, if another tool measured it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Experiment>,
}

/// What another tool measured, and the options that decide what that is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// The tool: `fio`.
    pub tool: String,
    /// The kind of work, where a tool has several that are never compared: `write`, `delete in order`.
    pub work: String,
    /// The options, by name: `iodepth` is `32`. Those that are not known are missing.
    pub options: BTreeMap<String, String>,
    /// The settings that the text around it states, by name: `mtu of eth0` is `9000`, `title` is `after the change`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

impl Baseline {
    /// Creates a baseline that has not been saved yet.
    pub fn new(kind: BaselineKind, inventory: Inventory, series: Vec<BaselineSeries>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            name: String::new(),
            kind,
            start: None,
            end: None,
            seconds: 0.0,
            inventory,
            series,
        }
    }

    /// Returns the series of a metric and a subject.
    pub fn series(&self, metric: &str, subject: &Subject) -> Option<&BaselineSeries> {
        self.series.iter().find(|series| series.metric == metric && series.subject == *subject)
    }
}

/// An entry in the list of baselines.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Listed {
    /// The name it was saved under.
    pub name: String,
    /// What it summarizes.
    pub kind: BaselineKind,
    /// Start time, RFC 3339.
    pub start: Option<String>,
    /// Duration, seconds.
    pub seconds: f64,
    /// Number of series.
    pub series: usize,
}

impl From<Baseline> for Listed {
    fn from(baseline: Baseline) -> Self {
        let Baseline { name, kind, start, seconds, series, .. } = baseline;
        Self { name, kind, start, seconds, series: series.len() }
    }
}

impl BaselineSeries {
    /// Creates a series from independent samples, such as repeats of a benchmark.
    pub fn of_repeats(metric: &str, subject: Subject, unit: &str, better: Better, samples: Vec<f64>) -> Self {
        let distribution = Distribution::from_values(unit, samples.iter().copied());
        Self {
            metric: metric.to_owned(),
            subject,
            unit: unit.to_owned(),
            better: Some(better),
            interval: None,
            samples,
            distribution,
            experiment: None,
        }
    }

    /// Creates a series of the rate of a load, from counts per interval of `length` seconds. Drops the last interval,
    /// which may be shorter.
    pub fn of_counts(metric: &str, subject: Subject, unit: &str, counts: &[u64], length: f64) -> Self {
        let whole = counts.split_last().map_or(&[][..], |(_, whole)| whole);
        let rates = whole.iter().map(|count| *count as f64 / length).collect();
        Self { interval: Some(length), ..Self::of_repeats(metric, subject, unit, Better::Higher, rates) }
    }
}

/// A distribution of values, in buckets that can be added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Distribution {
    /// The unit of counting: buckets hold whole multiples of it.
    resolution: f64,
    counts: Histogram,
}

impl Distribution {
    /// Creates an empty distribution of values in this unit. The resolution of times and ratios is one billionth, that
    /// of everything else one thousandth.
    pub fn new(unit: &str) -> Self {
        let resolution = if matches!(unit, "s" | "ratio") { 1e-9 } else { 1e-3 };
        Self { resolution, counts: Histogram::from_counts([]) }
    }

    /// Creates the distribution of these values.
    pub fn from_values(unit: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let mut all = Self::new(unit);
        let scale = all.resolution;
        all.counts = Histogram::from_values(values.into_iter().filter_map(|value| counted(value, scale)));
        all
    }

    /// Creates a distribution from a histogram of whole multiples of `resolution`.
    pub fn from_counts(resolution: f64, counts: Histogram) -> Self {
        Self { resolution, counts }
    }

    /// Counts a value; negative values are ignored.
    pub fn add(&mut self, value: f64) {
        if let Some(value) = counted(value, self.resolution) {
            self.counts.add(value);
        }
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.counts.count().unwrap_or(0)
    }

    /// Returns the quantile (0..1), to within 1.6 %; `None` without values.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        self.counts.quantile(share).map(|value| value * self.resolution)
    }

    /// Returns the maximum, to the same precision.
    pub fn max(&self) -> Option<f64> {
        let (bucket, _) = self.counts.buckets()?.last()?;
        Some(middle(*bucket) * self.resolution)
    }
}

/// Rounds a value to a whole multiple of the resolution; `None` for negative and non-finite values.
fn counted(value: f64, resolution: f64) -> Option<u64> {
    let multiple = (value / resolution).round();
    // Above 2^53 not every integer is an f64; the buckets there are much wider anyway.
    (0.0..u64::MAX as f64).contains(&multiple).then_some(multiple as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_tells_its_values_in_their_unit() {
        let times = Distribution::from_values("s", [0.001, 0.002, 0.004]);
        assert!((times.quantile(0.5).unwrap() / 0.002 - 1.0).abs() < 0.016);
        assert!((times.max().unwrap() / 0.004 - 1.0).abs() < 0.016);
        let mut rates = Distribution::new("bytes/s");
        [151e6, f64::NAN, -1.0, f64::INFINITY].into_iter().for_each(|rate| rates.add(rate));
        assert_eq!(rates.count(), 1);
        assert!((rates.max().unwrap() / 151e6 - 1.0).abs() < 0.016);
        assert_eq!(Distribution::default().quantile(0.5), None);
    }
}
