//! What whyslow does beside what another does: how fast, and at what cost.

use crate::failure::{Failure, Result};
use serde::Serialize;
use std::fmt;
use whyslow_model::bench::Median;

/// What one run of a program came to.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// How much it did in a second: requests, bytes or bits.
    pub rate: f64,
    /// Processor time of the threads that made the load, for each of those, seconds; none where it is not told alike.
    pub cost: Option<f64>,
}

/// How a case came out.
#[derive(Serialize)]
pub struct Comparison {
    /// Its name.
    pub case: String,
    /// The other program's rate: the median.
    pub peer_rate: f64,
    /// The other program's cost: the median; none where that is not compared.
    pub peer_cost: Option<f64>,
    /// Pairs run.
    pub pairs: usize,
    /// whyslow's rate by the other's.
    pub rate: Median,
    /// whyslow's cost by the other's.
    pub cost: Option<Median>,
}

impl Figures {
    /// Of so much in a second.
    ///
    /// # Errors
    /// Where that is nothing: `program` did not do what it was asked for.
    pub fn of(program: &str, rate: f64) -> Result<Self> {
        if rate > 0.0 { Ok(Self { rate, cost: None }) } else { Err(Failure::new(format!("{program} did nothing"))) }
    }
}

impl Comparison {
    /// Of pairs of whyslow and another.
    ///
    /// # Errors
    /// Where there are none.
    pub fn of(case: String, pairs: &[(Figures, Figures)]) -> Result<Self> {
        let of = |numbers: Vec<f64>| Median::of(numbers).ok_or_else(|| Failure::new("no pairs to run"));
        Ok(Self {
            case,
            peer_rate: of(pairs.iter().map(|(_, theirs)| theirs.rate).collect())?.value,
            peer_cost: Median::of(pairs.iter().filter_map(|(_, theirs)| theirs.cost).collect()).map(|cost| cost.value),
            pairs: pairs.len(),
            rate: of(pairs.iter().map(|(ours, theirs)| ours.rate / theirs.rate).collect())?,
            cost: Median::of(pairs.iter().filter_map(|(ours, theirs)| Some(ours.cost? / theirs.cost?)).collect()),
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
        let found = Comparison::of("x".into(), &pairs).unwrap();
        assert_eq!((found.pairs, found.peer_rate, found.peer_cost), (2, 7.0, Some(5.0)));
        assert_eq!((found.rate.value, found.cost.unwrap().value), (1.5, 0.5));
        assert!(Comparison::of("x".into(), &[]).is_err());
        assert!(Figures::of("x", 0.0).is_err());
    }
}
