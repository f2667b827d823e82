//! Exact tests and intervals for counts of exposure and cases, in one stratum or several.

use super::distributions::normal_quantile;
use super::{CONFIDENCE, Estimate};

/// A 2×2 table: of `all`, `with` are exposed, `cases` are cases, and `with_cases` are both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContingencyTable {
    /// Exposed cases.
    pub with_cases: usize,
    /// All exposed.
    pub with: usize,
    /// All cases.
    pub cases: usize,
    /// All subjects.
    pub all: usize,
}

impl ContingencyTable {
    /// Returns the smallest and the largest possible number of exposed cases, given the totals.
    fn support(&self) -> (usize, usize) {
        ((self.with + self.cases).saturating_sub(self.all), self.with.min(self.cases))
    }

    /// Returns whether the table holds any information about an association.
    fn is_informative(&self) -> bool {
        let (low, high) = self.support();
        low < high
    }

    /// Returns the mean and variance of `with_cases` if there is no association.
    fn moments(&self) -> (f64, f64) {
        let [with, cases, all] = [self.with, self.cases, self.all].map(|n| n as f64);
        let mean = with * cases / all;
        let variance = if self.all > 1 { mean * (all - with) * (all - cases) / (all * (all - 1.0)) } else { 0.0 };
        (mean, variance)
    }

    /// Returns the probability of each number of `with_cases`, from the smallest on, if exposure multiplies the odds by
    /// `odds`: Fisher's noncentral hypergeometric distribution.
    fn distribution(&self, odds: f64) -> Vec<f64> {
        let (low, high) = self.support();
        let ratio = |k: usize| {
            let up = (self.with - k) as f64 * (self.cases - k) as f64;
            let down = (k + 1) as f64 * (self.all + k + 1 - self.with - self.cases) as f64;
            odds * up / down
        };
        // From the mode in both directions, so that only negligible weights can underflow.
        let mode = (low..high).find(|k| ratio(*k) < 1.0).unwrap_or(high);
        let mut weights = vec![0.0; high - low + 1];
        weights[mode - low] = 1.0;
        for k in mode..high {
            weights[k + 1 - low] = weights[k - low] * ratio(k);
        }
        for k in (low..mode).rev() {
            weights[k - low] = weights[k + 1 - low] / ratio(k);
        }
        let sum: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|weight| *weight /= sum);
        weights
    }

    /// Returns the goodness of fit of two risks, of the exposed and of the others: the logarithm of the maximum
    /// likelihood.
    pub fn log_likelihood(&self) -> f64 {
        let of = |cases: usize, all: usize| {
            let term = |count: usize| if count == 0 { 0.0 } else { count as f64 * (count as f64 / all as f64).ln() };
            term(cases) + term(all - cases)
        };
        of(self.with_cases, self.with) + of(self.cases - self.with_cases, self.all - self.with)
    }

    /// Returns the risk difference between the exposed and the others, with Newcombe's score interval (Newcombe,
    /// Interval estimation for the difference between independent proportions, Statistics in Medicine 17, 1998, method
    /// 10). `None` if all are exposed, or none.
    pub fn risk_difference(&self) -> Option<Estimate> {
        let (without, without_cases) = (self.all - self.with, self.cases - self.with_cases);
        if self.with == 0 || without == 0 {
            return None;
        }
        let a = wilson(self.with_cases, self.with, CONFIDENCE);
        let b = wilson(without_cases, without, CONFIDENCE);
        let shift = a.shift - b.shift;
        Some(Estimate {
            shift,
            low: shift - (a.shift - a.low).hypot(b.high - b.shift),
            high: shift + (a.high - a.shift).hypot(b.shift - b.low),
        })
    }
}

/// Returns a proportion with Wilson's score interval (Wilson, Journal of the American Statistical Association 22,
/// 1927). `of` must not be 0.
pub fn wilson(count: usize, of: usize, confidence: f64) -> Estimate {
    let z = normal_quantile(f64::midpoint(1.0, confidence));
    let (n, share) = (of as f64, count as f64 / of as f64);
    let middle = share + z * z / (2.0 * n);
    let reach = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + z * z / n;
    Estimate { shift: share, low: ((middle - reach) / scale).max(0.0), high: ((middle + reach) / scale).min(1.0) }
}

/// Returns the probability of at least as many exposed cases if there is no association, given each stratum's totals:
/// the exact, one-sided conditional test of Cochran, Mantel and Haenszel; with one stratum, Fisher's exact test (Mehta,
/// Patel, Gray, Computing an exact confidence interval for the common odds ratio in several 2×2 contingency tables,
/// Journal of the American Statistical Association 80, 1985).
pub fn upper_p(strata: &[ContingencyTable]) -> f64 {
    let sum = Sum::new(strata, 1.0);
    sum.weights[sum.seen..].iter().sum::<f64>().min(1.0)
}

/// Returns the probability of at most as many exposed cases, likewise.
pub fn lower_p(strata: &[ContingencyTable]) -> f64 {
    let sum = Sum::new(strata, 1.0);
    sum.weights[..=sum.seen].iter().sum::<f64>().min(1.0)
}

/// Returns the smallest [`upper_p`] that these totals allow: that of the largest possible number of exposed cases.
pub fn least_upper_p(strata: &[ContingencyTable]) -> f64 {
    let last = |table: &ContingencyTable| table.distribution(1.0).last().copied().unwrap_or(1.0);
    strata.iter().filter(|table| table.is_informative()).map(last).product()
}

/// Returns the excess of exposed cases over the expected number, in standard deviations (Cochran, Mantel, Haenszel); 0
/// if no stratum is informative.
pub fn score(strata: &[ContingencyTable]) -> f64 {
    let informative = strata.iter().filter(|table| table.is_informative());
    let (excess, variance) = informative.fold((0.0, 0.0), |(excess, variance), table| {
        let (mean, of_table) = table.moments();
        (excess + table.with_cases as f64 - mean, variance + of_table)
    });
    if variance > 0.0 { excess / variance.sqrt() } else { 0.0 }
}

/// Returns the factor by which exposure multiplies the odds of being a case, the same in all strata: the conditional
/// maximum likelihood estimate with its exact interval (Mehta, Patel, Gray). An end that the data do not bound is 0 or
/// infinite; `None` if no stratum is informative.
pub fn odds_ratio(strata: &[ContingencyTable]) -> Option<Estimate> {
    let tilt = mantel_haenszel(strata);
    let sum = Sum::new(strata, tilt);
    let last = sum.weights.len() - 1;
    if last == 0 {
        return None;
    }
    let tail = (1.0 - CONFIDENCE) / 2.0;
    let seen = sum.seen as f64;
    // Each of these increases with the odds ratio.
    let mean =
        |weights: &[f64]| weights.iter().zip(0_u32..).map(|(weight, k)| weight * f64::from(k)).sum::<f64>() - seen;
    let above = |weights: &[f64]| weights[sum.seen..].iter().sum::<f64>() - tail;
    let below = |weights: &[f64]| tail - weights[..=sum.seen].iter().sum::<f64>();
    let (is_first, is_last) = (sum.seen == 0, sum.seen == last);
    Some(Estimate {
        shift: if is_last {
            f64::INFINITY
        } else if is_first {
            0.0
        } else {
            tilt * sum.root(mean)
        },
        low: if is_first { 0.0 } else { tilt * sum.root(above) },
        high: if is_last { f64::INFINITY } else { tilt * sum.root(below) },
    })
}

/// Returns the odds ratio of Mantel and Haenszel, kept finite by half a count in each cell: only a starting point.
fn mantel_haenszel(strata: &[ContingencyTable]) -> f64 {
    let (mut up, mut down) = (0.0, 0.0);
    for table in strata.iter().filter(|table| table.is_informative()) {
        let with_controls = table.with - table.with_cases;
        let without_cases = table.cases - table.with_cases;
        let without_controls = table.all + table.with_cases - table.with - table.cases;
        let half = |n: usize| n as f64 + 0.5;
        up += half(table.with_cases) * half(without_controls) / half(table.all);
        down += half(with_controls) * half(without_cases) / half(table.all);
    }
    if down > 0.0 { up / down } else { 1.0 }
}

/// Probability of each number of exposed cases, over all strata together.
struct Sum {
    weights: Vec<f64>,
    /// Index of the observed number.
    seen: usize,
}

impl Sum {
    fn new(strata: &[ContingencyTable], odds: f64) -> Self {
        let mut sum = Self { weights: vec![1.0], seen: 0 };
        for table in strata.iter().filter(|table| table.is_informative()) {
            sum.weights = convolve(&sum.weights, &table.distribution(odds));
            sum.seen += table.with_cases - table.support().0;
        }
        sum
    }

    /// Returns the factor of the odds at which a function of the weights is zero; the function must increase with the
    /// factor.
    fn root(&self, of: impl Fn(&[f64]) -> f64) -> f64 {
        let (mut low, mut high) = (-40.0_f64, 40.0_f64);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if of(&self.tilted(middle)) < 0.0 { low = middle } else { high = middle }
        }
        f64::midpoint(low, high).exp()
    }

    /// Returns the weights for odds multiplied by this factor, given as its logarithm.
    fn tilted(&self, log: f64) -> Vec<f64> {
        let logs = self.weights.iter().zip(0_u32..).map(|(weight, k)| weight.ln() + log * f64::from(k));
        let logs: Vec<f64> = logs.collect();
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|log| (log - most).exp()).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }
}

fn convolve(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; a.len() + b.len() - 1];
    for (i, a) in a.iter().enumerate().filter(|(_, a)| **a > 0.0) {
        for (sum, b) in sum[i..].iter_mut().zip(b) {
            *sum += a * b;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, digits: i32) -> bool {
        (a - b).abs() <= 0.5000001 * 10_f64.powi(-digits)
    }

    #[test]
    fn fishers_test_and_interval_are_those_of_his_twins() {
        // Fisher, Statistical Methods for Research Workers, 21.02 (1962): of 13 monozygotic twins of convicts 10 were convicted,
        // of 17 dizygotic ones 2. R's documentation of fisher.test prints a p of 0.0004652, an odds ratio of 0.04693661 for the
        // other order, and the interval from 0.003325764 to 0.363182271.
        let monozygotic = [ContingencyTable { with_cases: 10, with: 13, cases: 12, all: 30 }];
        let dizygotic = [ContingencyTable { with_cases: 2, with: 17, cases: 12, all: 30 }];
        assert!(near(upper_p(&monozygotic), 0.000_465_2, 7) && near(lower_p(&dizygotic), 0.000_465_2, 7));
        let odds = odds_ratio(&dizygotic).unwrap();
        assert!(near(odds.shift, 0.046_936_6, 6), "{odds:?}");
        // R's search for the ends stops at four digits: at its lower one the tail is 0.02511, at this one 0.02500.
        assert!((odds.low - 0.003_325_8).abs() < 2e-5 && (odds.high - 0.363_182_3).abs() < 2e-5, "{odds:?}");
        // The lady tasting tea (The Design of Experiments, 11): all four cups right, one way of 70; three right, 16 more.
        let tea = |right: usize| [ContingencyTable { with_cases: right, with: 4, cases: 4, all: 8 }];
        assert!(near(upper_p(&tea(4)), 1.0 / 70.0, 12) && near(upper_p(&tea(3)), 17.0 / 70.0, 12));
        assert!(near(least_upper_p(&tea(3)), 1.0 / 70.0, 12));
        assert_eq!(odds_ratio(&tea(4)).unwrap().high, f64::INFINITY);
    }

    #[test]
    fn strata_are_tested_together_as_with_the_rabbits() {
        // Mantel's rabbits (R's documentation of mantelhaen.test): cured with penicillin at once or after 1.5 hours, at five doses.
        // Of 220 · 495 · 12 ways, 26,100 have at least the 16 cured that were seen: by hand.
        let table = |with_cases, with, cases, all| ContingencyTable { with_cases, with, cases, all };
        let rabbits =
            [table(0, 6, 0, 11), table(3, 6, 3, 12), table(6, 6, 8, 12), table(5, 6, 11, 12), table(2, 2, 7, 7)];
        assert!(near(upper_p(&rabbits), 26_100.0 / 1_306_800.0, 9));
        // A stratum in which all are alike is not informative.
        assert!(near(upper_p(&rabbits[1..4]), upper_p(&rabbits), 12));
        assert!(near(upper_p(&[]), 1.0, 12) && odds_ratio(&rabbits[..1]).is_none());
        assert!(near(score(&rabbits[..1]), 0.0, 12));
        // Three doses are informative: 14 cured, 11 expected; R's chi-squared with its continuity correction, 3.9286,
        // is 2.5² / 1.59091.
        assert!(near(score(&rabbits), 3.0 / 1.590_909_f64.sqrt(), 5), "{}", score(&rabbits));
    }

    #[test]
    fn intervals_of_proportions_are_those_of_newcombe() {
        // Newcombe, Two-sided confidence intervals for the single proportion, Statistics in Medicine 17 (1998), table I, method 3.
        for (count, of, low, high) in
            [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]
        {
            let share = wilson(count, of, 0.95);
            assert!(near(share.low, low, 4) && near(share.high, high, 4), "{share:?}");
        }
        // The same author's paper on differences, table II, method 10.
        for (a, of_a, b, of_b, low, high) in
            [(56, 70, 48, 80, 0.0524, 0.3339), (9, 10, 3, 10, 0.1705, 0.8090), (5, 56, 0, 29, -0.0381, 0.1926)]
        {
            let table = ContingencyTable { with_cases: a, with: of_a, cases: a + b, all: of_a + of_b };
            let difference = table.risk_difference().unwrap();
            assert!(near(difference.low, low, 4) && near(difference.high, high, 4), "{difference:?}");
        }
        assert_eq!(ContingencyTable { with_cases: 1, with: 2, cases: 1, all: 2 }.risk_difference(), None);
        // One of two, and all of three: twice the logarithm of a half.
        let halves = ContingencyTable { with_cases: 1, with: 2, cases: 4, all: 5 };
        assert!(near(halves.log_likelihood(), 2.0 * 0.5_f64.ln(), 12));
    }

    #[test]
    fn ten_thousand_hosts_are_no_problem() {
        let all = [ContingencyTable { with_cases: 900, with: 2000, cases: 1000, all: 10_000 }];
        assert!(upper_p(&all) < 1e-250);
        // Odds of 900:1100 against 100:7900.
        let odds = odds_ratio(&all).unwrap();
        assert!((odds.shift / 64.6 - 1.0).abs() < 0.01 && odds.low > 50.0 && odds.high < 82.0, "{odds:?}");
    }
}
