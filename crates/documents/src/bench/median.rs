//! The median with a distribution-free confidence interval.

use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// A median with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Median {
    /// The median.
    pub value: f64,
    /// 95 % confidence interval; `None` with fewer than six samples.
    pub interval: Option<[f64; 2]>,
}

impl Median {
    /// Computes the median; `None` without samples. The interval is that of the sign test (Conover, Practical
    /// Nonparametric Statistics, 3.4), which assumes only independent samples.
    pub fn from_samples(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let n = samples.len();
        let value = (samples.get(n / 2)? + samples.get((n - 1) / 2)?) / 2.0;
        let interval = rank(n).map(|k| [samples[k - 1], samples[n - k]]);
        Some(Self { value, interval })
    }
}

impl fmt::Display for Median {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ", self.value)?;
        match self.interval {
            Some([low, high]) => write!(f, "({low:.3} .. {high:.3})"),
            None => f.write_str("(too few pairs)"),
        }
    }
}

/// Returns the largest k for which the k-th smallest and the k-th largest of n samples enclose the median with 95 %
/// confidence: fewer than k heads in n tosses have a probability of at most 2.5 %.
fn rank(n: usize) -> Option<usize> {
    let mut chance = 0.5_f64.powi(i32::try_from(n).ok()?);
    let mut below = 0.0;
    for k in 0..=n {
        below += chance;
        if below > 0.025 {
            return (k > 0).then_some(k);
        }
        chance *= (n - k) as f64 / (k + 1) as f64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks from tables of the sign test (Conover, table A3).
    #[test]
    fn ranks_are_those_of_the_tables() {
        let expected = [None, Some(1), Some(1), Some(2), Some(2), Some(4), Some(6), Some(8)];
        assert_eq!([5, 6, 8, 9, 10, 15, 20, 25].map(rank), expected);
    }

    #[test]
    fn a_median_and_its_interval() {
        let found = Median::from_samples((1..=10).rev().map(f64::from).collect()).unwrap();
        assert_eq!(found, Median { value: 5.5, interval: Some([2.0, 9.0]) });
        assert_eq!(Median::from_samples(vec![3.0, 1.0, 2.0]), Some(Median { value: 2.0, interval: None }));
        assert_eq!(Median::from_samples(Vec::new()), None);
    }
}
