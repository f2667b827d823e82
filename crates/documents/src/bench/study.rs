//! Figures, each measured repeatedly, with a confidence interval.

use super::{Latency, Median};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Figures measured in the same way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Study {
    /// `latency`, `context switch`, ...
    pub name: String,
    /// Index into the report's targets; `None` for the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<usize>,
    /// How the figures are measured, and what they count.
    pub method: String,
    /// In order; name and conditions are unique.
    pub figures: Vec<Measurement>,
    /// Where throughput stops rising with the size; of figures by size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knees: Vec<SizeKnee>,
    /// Results in sentences.
    pub findings: Vec<String>,
}

/// Where throughput stops rising with the size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SizeKnee {
    /// The name of the figures that are compared.
    pub name: String,
    /// The conditions of the figure at the knee.
    pub under: String,
    /// The size from which on a larger one gains little for certain: block size in bytes, or number of readers.
    pub size: u64,
    /// The smallest size that no larger one exceeds by more than noise; the plateau may begin there.
    pub earliest: u64,
    /// Throughput there, bytes per second.
    pub value: f64,
    /// Whether larger sizes bring no more; otherwise, throughput still rises at this size, the largest.
    pub reached: bool,
    /// The most that a larger size may gain, as a share of the throughput (95 % confidence); 0 if none does.
    pub most_gain: f64,
    /// Whether the CPU generating the load was the limit there.
    pub generator: bool,
}

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// What was measured.
    pub name: String,
    /// The conditions: working set, page size, number of threads.
    pub under: String,
    /// The unit of value and samples: `s` for the time of one, `bytes/s` or `1/s` for a rate.
    pub unit: String,
    /// Whether higher is better.
    pub more_is_better: bool,
    /// The median of the samples.
    pub value: f64,
    /// 95 % confidence interval of the median; `None` with too few samples.
    pub interval: Option<[f64; 2]>,
    /// Half the width of the interval relative to the value.
    pub noise: Option<f64>,
    /// One per repetition, in order.
    pub samples: Vec<f64>,
    /// Repetitions in which a thread waited for its CPU.
    pub disturbed: usize,
    /// The times whose medians the samples are, if they are medians.
    pub spread: Option<Latency>,
}

impl Measurement {
    /// Returns whether two figures differ by more than noise: neither median is in the other's interval.
    pub fn is_apart_from(&self, other: &Self) -> bool {
        let within =
            |figure: &Self, value: f64| figure.interval.is_some_and(|[low, high]| (low..=high).contains(&value));
        self.value != other.value && !within(self, other.value) && !within(other, self.value)
    }

    /// Creates a figure from its samples; `None` without samples.
    pub fn from_samples(
        name: impl Into<String>,
        under: impl Into<String>,
        unit: &str,
        samples: Vec<f64>,
    ) -> Option<Self> {
        let Median { value, interval } = Median::from_samples(samples.clone())?;
        let noise = interval.filter(|_| value != 0.0).map(|[low, high]| (high - low) / 2.0 / value.abs());
        Some(Self {
            name: name.into(),
            under: under.into(),
            unit: unit.to_owned(),
            more_is_better: unit != "s",
            value,
            interval,
            noise,
            samples,
            disturbed: 0,
            spread: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_its_median_and_says_how_sure_it_is() {
        let samples: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        let figure = Measurement::from_samples("read", "1 MiB", "bytes/s", samples.clone()).unwrap();
        assert_eq!((figure.value, figure.interval), (5.5, Some([2.0, 9.0])));
        assert!((figure.noise.unwrap() - 3.5 / 5.5).abs() < 1e-12);
        assert_eq!((figure.samples, figure.more_is_better), (samples, true));
        let few = Measurement::from_samples("wake", "", "s", vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((few.value, few.interval, few.noise, few.more_is_better), (2.0, None, None, false));
        assert_eq!(Measurement::from_samples("nothing", "", "s", Vec::new()), None);
    }

    #[test]
    fn figures_are_apart_where_neither_may_be_the_other() {
        let around = |value: f64| {
            Measurement::from_samples("x", "", "s", (0..10).map(|i| value + f64::from(i) / 10.0).collect()).unwrap()
        };
        assert!(around(1.0).is_apart_from(&around(3.0)) && around(3.0).is_apart_from(&around(1.0)));
        assert!(!around(1.0).is_apart_from(&around(1.2)) && !around(1.0).is_apart_from(&around(1.0)));
        assert!(Measurement::from_samples("x", "", "s", vec![1.0]).unwrap().is_apart_from(&around(3.0)));
    }
}
