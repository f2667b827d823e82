//! Comparison of whyslow with another program: rate and CPU cost.

use crate::failure::{Failure, Result};
use serde::Serialize;
use std::fmt;
use whyslow_documents::bench::Median;

/// Result of one run.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Requests, bytes or bits per second.
    pub rate: f64,
    /// CPU seconds of the load-generating threads per request, byte or bit; `None` if not comparable.
    pub cost: Option<f64>,
}

/// Result of a case.
#[derive(Serialize)]
pub struct Comparison {
    /// Name of the case.
    pub case: String,
    /// Median rate of the other program.
    pub peer_rate: f64,
    /// Median cost of the other program.
    pub peer_cost: Option<f64>,
    /// Number of pairs.
    pub pairs: usize,
    /// whyslow's rate relative to the other's.
    pub rate: Median,
    /// whyslow's cost relative to the other's.
    pub cost: Option<Median>,
}

impl Figures {
    /// Creates figures with a rate but no cost.
    ///
    /// # Errors
    /// Fails if the rate is 0, so `program` did nothing.
    pub fn from_rate(program: &str, rate: f64) -> Result<Self> {
        if rate > 0.0 { Ok(Self { rate, cost: None }) } else { Err(Failure::new(format!("{program} did nothing"))) }
    }
}

impl Comparison {
    /// Compares pairs of whyslow and another program.
    ///
    /// # Errors
    /// Fails if there are no pairs.
    pub fn from_pairs(case: String, pairs: &[(Figures, Figures)]) -> Result<Self> {
        let of = |numbers: Vec<f64>| Median::from_samples(numbers).ok_or_else(|| Failure::new("no pairs to run"));
        Ok(Self {
            case,
            peer_rate: of(pairs.iter().map(|(_, theirs)| theirs.rate).collect())?.value,
            peer_cost: Median::from_samples(pairs.iter().filter_map(|(_, theirs)| theirs.cost).collect())
                .map(|cost| cost.value),
            pairs: pairs.len(),
            rate: of(pairs.iter().map(|(ours, theirs)| ours.rate / theirs.rate).collect())?,
            cost: Median::from_samples(
                pairs.iter().filter_map(|(ours, theirs)| Some(ours.cost? / theirs.cost?)).collect(),
            ),
        })
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<34} peer {:>14.0}/s  rate {}", self.case, self.peer_rate, self.rate)?;
        self.cost.as_ref().map_or(Ok(()), |cost| write!(f, "  cpu {cost}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_pairs_and_costs_of_those_that_tell_them() {
        let run = |rate, cost| Figures { rate, cost };
        let pairs = [(run(10.0, Some(2.0)), run(5.0, Some(4.0))), (run(9.0, None), run(9.0, Some(6.0)))];
        let found = Comparison::from_pairs("x".into(), &pairs).unwrap();
        assert_eq!((found.pairs, found.peer_rate, found.peer_cost), (2, 7.0, Some(5.0)));
        assert_eq!((found.rate.value, found.cost.unwrap().value), (1.5, 0.5));
        assert!(Comparison::from_pairs("x".into(), &[]).is_err());
        assert!(Figures::from_rate("x", 0.0).is_err());
    }
}
