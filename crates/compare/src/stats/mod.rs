//! Statistics of measurements: medians of differences and exact tests, which assume nothing about the distribution of
//! the values.
//!
//! Repeated measurements are autocorrelated: on noise whose neighbours correlate by .5, .8 and .95, a rank test of
//! one-second samples reports a change in 21, 42 and 61 % of the cases without a change. So values are paired and
//! interleaved where possible ([`paired`]), and otherwise averaged over pieces that are long enough to be independent
//! ([`pieces`], [`ranks`]).

pub mod contingency;
pub mod distributions;
pub mod paired;
pub mod pieces;
pub mod ranks;
pub mod trend;

/// Default confidence level of intervals.
pub const CONFIDENCE: f64 = 0.95;

/// An estimate of a shift, and an interval that contains the true shift with the requested confidence, or with the best
/// that so few values allow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The shift.
    pub shift: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Returns the median of ascending numbers; NaN without any.
pub fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

/// Result of one of several tests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corrected {
    /// Its p-value as if it were the only one.
    pub p: f64,
    /// Number of tests for which it was corrected.
    pub tests: usize,
}

/// Corrects the p-values of several tests for their number (Holm, A simple sequentially rejective multiple test
/// procedure, Scandinavian Journal of Statistics 6, 1979): rejecting all tests below a level has at most that
/// probability of any error. The smallest is corrected for all tests, the next one for one test less, and so on.
pub fn holm(probabilities: &[f64]) -> Vec<Corrected> {
    let mut order: Vec<usize> = (0..probabilities.len()).collect();
    order.sort_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
    let mut corrected = vec![Corrected { p: 1.0, tests: 1 }; probabilities.len()];
    let mut least: f64 = 0.0;
    for (rank, at) in order.into_iter().enumerate() {
        let tests = probabilities.len() - rank;
        least = least.max(probabilities[at] * tests as f64).min(1.0);
        corrected[at] = Corrected { p: least, tests };
    }
    corrected
}

/// Returns the numbers that lie `cut` ranks from either end of ascending ones. If even one rank is too many, returns
/// the first and the last.
fn between(sorted: &[f64], cut: usize) -> Option<(f64, f64)> {
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    match cut.min((sorted.len() - 1) / 2) {
        0 => Some((first, last)),
        cut => Some((sorted[cut - 1], sorted[sorted.len() - cut])),
    }
}

/// Returns how many of the smallest values of a statistic together have at most the probability `tail`, given the
/// number of ways in which each value can occur.
fn ranks_within(ways: &[f64], tail: f64) -> usize {
    let all: f64 = ways.iter().sum();
    let mut below = 0.0;
    ways.iter()
        .take_while(|count| {
            below += **count / all;
            below <= tail
        })
        .count()
}

#[cfg(test)]
pub(crate) mod noise {
    /// A series whose neighbours correlate by `memory`; mean 0, variance 1.
    pub struct Noise {
        memory: f64,
        level: f64,
        random: u64,
    }

    impl Noise {
        pub fn new(seed: u64, memory: f64) -> Self {
            let mut noise = Self { memory, level: 0.0, random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 };
            noise.level = noise.normal();
            noise
        }

        pub fn next(&mut self) -> f64 {
            self.level = self.memory * self.level + (1.0 - self.memory * self.memory).sqrt() * self.normal();
            self.level
        }

        /// Returns twelve uniform numbers minus their mean: close enough to normal.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
        }

        /// Returns a uniform number by Xorshift (Marsaglia 2003).
        fn uniform(&mut self) -> f64 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            (self.random >> 11) as f64 / (1_u64 << 53) as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holms_procedure_is_that_of_the_paper() {
        // The smallest times four, the next times three; and never below the one before.
        let p = |p: &[f64]| holm(p).iter().map(|one| one.p).collect::<Vec<_>>();
        assert_eq!(p(&[0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]);
        assert_eq!(p(&[0.5, 0.6]), [1.0, 1.0]);
        assert_eq!(holm(&[]), []);
        assert_eq!(holm(&[0.01, 0.04, 0.03, 0.005]).iter().map(|one| one.tests).collect::<Vec<_>>(), [3, 1, 2, 4]);
    }
}
