//! What a machine was like over a good period, or did in a benchmark: kept to be compared with. `whyslow.baseline/1`, public
//! interface, described in docs/compare.md. Fields may be added; these stay.

use crate::diagnosis::Subject;
use crate::histogram::{Histogram, middle};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.baseline/1";

/// A summary that can be compared with another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// What it was saved as; empty where it was not.
    pub name: String,
    /// What it is a summary of.
    pub kind: Kind,
    /// When that began, RFC 3339; `null` where unknown.
    pub start: Option<String>,
    /// When it ended.
    pub end: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// What the machine consisted of and how it was set.
    pub inventory: Inventory,
    /// What was measured.
    pub series: Vec<Series>,
}

/// What a baseline is a summary of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A period in which a machine was observed: nobody knows what was asked of it.
    Period,
    /// Known load.
    Bench,
}

/// Hardware, firmware, kernel, settings and mounts: what each is called (`kernel`, `disk vda: scheduler`), and what it is, as
/// the system spells it. Hostile text: whoever draws it escapes it.
pub type Inventory = BTreeMap<String, String>;

/// One thing that was measured again and again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// What was measured: a signal's name, or what a benchmark calls it. With the subject it tells one series of a baseline
    /// from the others, and says which of another baseline it is compared with.
    pub metric: String,
    /// Of what.
    pub subject: Subject,
    /// The unit of values, as in the diagnosis document: s, bytes, bytes/s, 1/s, ratio, count, bit/s.
    pub unit: String,
    /// Whether more of it is better; `null` where that depends: a disk that reads more may be a better disk or have more to do.
    pub better: Option<Better>,
    /// The seconds that each sample is the mean of, one after the other; `null` where each was measured by itself, such as
    /// repeats of a benchmark.
    pub interval: Option<f64>,
    /// What was measured, in the order of time.
    pub samples: Vec<f64>,
    /// How often each size occurred, which samples that are means do not tell.
    #[serde(default)]
    pub distribution: Distribution,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is.
    Higher,
    /// Less is.
    Lower,
}

impl Baseline {
    /// What was found over a period or by a benchmark, with no name yet.
    pub fn new(kind: Kind, inventory: Inventory, series: Vec<Series>) -> Self {
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

    /// The series of a metric of this subject.
    pub fn series(&self, metric: &str, subject: &Subject) -> Option<&Series> {
        self.series.iter().find(|series| series.metric == metric && series.subject == *subject)
    }
}

/// A baseline in a list of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Listed {
    /// What it was saved as.
    pub name: String,
    /// What it is a summary of.
    pub kind: Kind,
    /// When that began, RFC 3339.
    pub start: Option<String>,
    /// How long it took.
    pub seconds: f64,
    /// How many series it has.
    pub series: usize,
}

impl From<Baseline> for Listed {
    fn from(baseline: Baseline) -> Self {
        let Baseline { name, kind, start, seconds, series, .. } = baseline;
        Self { name, kind, start, seconds, series: series.len() }
    }
}

impl Series {
    /// Measurements each made by itself, such as repeats of a benchmark.
    pub fn of_repeats(metric: &str, subject: Subject, unit: &str, better: Better, samples: Vec<f64>) -> Self {
        let distribution = Distribution::of(unit, samples.iter().copied());
        Self {
            metric: metric.to_owned(),
            subject,
            unit: unit.to_owned(),
            better: Some(better),
            interval: None,
            samples,
            distribution,
        }
    }

    /// The course of a load: what was counted in intervals of this length, seconds, as a rate. The last can be cut short and is
    /// left out.
    pub fn of_counts(metric: &str, subject: Subject, unit: &str, counts: &[u64], length: f64) -> Self {
        let whole = counts.split_last().map_or(&[][..], |(_, whole)| whole);
        let rates = whole.iter().map(|count| *count as f64 / length).collect();
        Self { interval: Some(length), ..Self::of_repeats(metric, subject, unit, Better::Higher, rates) }
    }
}

/// How often each size of value occurred, in buckets that can be added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// What a value was divided by to be counted: buckets are of whole numbers.
    resolution: f64,
    counts: Histogram,
}

impl Distribution {
    /// One of no values in this unit. Times and ratios are counted to the billionth, all else to the thousandth.
    pub fn new(unit: &str) -> Self {
        let resolution = if matches!(unit, "s" | "ratio") { 1e-9 } else { 1e-3 };
        Self { resolution, counts: Histogram::from_counts([]) }
    }

    /// One of these values.
    pub fn of(unit: &str, values: impl IntoIterator<Item = f64>) -> Self {
        let mut all = Self::new(unit);
        let scale = all.resolution;
        all.counts = Histogram::from_values(values.into_iter().filter_map(|value| counted(value, scale)));
        all
    }

    /// Counts of values that were counted as whole multiples of `resolution`.
    pub fn from_counts(resolution: f64, counts: Histogram) -> Self {
        Self { resolution, counts }
    }

    /// Counts a value. One below zero has no bucket, and is left out.
    pub fn add(&mut self, value: f64) {
        if let Some(value) = counted(value, self.resolution) {
            self.counts.add(value);
        }
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.counts.count().unwrap_or(0)
    }

    /// The value below which this share (0..1) of them lies, to within 1.6 %; `None` without values.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        self.counts.quantile(share).map(|value| value * self.resolution)
    }

    /// The largest, as near.
    pub fn max(&self) -> Option<f64> {
        let (bucket, _) = self.counts.buckets()?.last()?;
        Some(middle(*bucket) * self.resolution)
    }
}

/// A value as a whole multiple of the resolution.
fn counted(value: f64, resolution: f64) -> Option<u64> {
    let multiple = (value / resolution).round();
    // From 2^53 on not every whole number is an f64; the buckets there are far wider.
    (0.0..u64::MAX as f64).contains(&multiple).then_some(multiple as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_tells_its_values_in_their_unit() {
        let times = Distribution::of("s", [0.001, 0.002, 0.004]);
        assert!((times.quantile(0.5).unwrap() / 0.002 - 1.0).abs() < 0.016);
        assert!((times.max().unwrap() / 0.004 - 1.0).abs() < 0.016);
        let mut rates = Distribution::new("bytes/s");
        [151e6, f64::NAN, -1.0, f64::INFINITY].into_iter().for_each(|rate| rates.add(rate));
        assert_eq!(rates.count(), 1);
        assert!((rates.max().unwrap() / 151e6 - 1.0).abs() < 0.016);
        assert_eq!(Distribution::default().quantile(0.5), None);
    }
}
