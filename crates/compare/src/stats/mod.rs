//! The statistics of measurements: medians of differences and exact tests, which assume nothing about how values are
//! distributed.
//!
//! What is measured again and again remembers what it was: on noise whose neighbours correlate by .5, .8 and .95 a rank test of
//! one-second samples calls 21, 42 and 61 % of no changes a change. So values are paired and interleaved where that can be had
//! ([`paired`]), and otherwise put together into pieces that are long enough to be independent ([`pieces`], [`ranks`]).

pub mod contingency;
pub mod distributions;
pub mod paired;
pub mod pieces;
pub mod ranks;
pub mod trend;

/// How surely an interval holds the true value where nothing else is asked for.
pub const CONFIDENCE: f64 = 0.95;

/// An estimate of a shift, and an interval that holds the true one with the confidence asked for, or the best that so few
/// values allow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The shift.
    pub shift: f64,
    /// Where the interval begins.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
}

/// The middle of ascending numbers; NaN without any.
pub fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

/// One of several tests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Corrected {
    /// Its probability as if it were the only one.
    pub p: f64,
    /// For how many tests it was corrected.
    pub tests: usize,
}

/// Corrects the probabilities of several tests for their number (Holm, A simple sequentially rejective multiple test procedure,
/// Scandinavian Journal of Statistics 6, 1979): what stays below a level there is, with all of them together, no more often in
/// error than that. The smallest counts as one of all, the next as one of one less.
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

/// The numbers that lie `cut` ranks from either end of ascending ones. Where even one rank is too many, all lie between the
/// first and the last.
fn between(sorted: &[f64], cut: usize) -> Option<(f64, f64)> {
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    match cut.min((sorted.len() - 1) / 2) {
        0 => Some((first, last)),
        cut => Some((sorted[cut - 1], sorted[sorted.len() - cut])),
    }
}

/// How many of the smallest values of a statistic together are no more probable than `tail`, where each value has so many ways
/// to come about.
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

        /// Twelve uniform numbers less their mean: near enough to normal.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
        }

        /// Xorshift (Marsaglia 2003).
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
        // The smallest times four, the next times three; and never below one before.
        let p = |p: &[f64]| holm(p).iter().map(|one| one.p).collect::<Vec<_>>();
        assert_eq!(p(&[0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02]);
        assert_eq!(p(&[0.5, 0.6]), [1.0, 1.0]);
        assert_eq!(holm(&[]), []);
        assert_eq!(holm(&[0.01, 0.04, 0.03, 0.005]).iter().map(|one| one.tests).collect::<Vec<_>>(), [3, 1, 2, 4]);
    }
}
