//! Statistics of paired measurements: the median of the ratios and a distribution-free interval for it.

use crate::failure::Result;
use serde::Serialize;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// The median of paired ratios, with an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Median {
    /// The median.
    pub value: f64,
    /// The interval that holds the true median with at least 95 % confidence; `None` with fewer than six pairs.
    pub interval: Option<(f64, f64)>,
}

impl fmt::Display for Median {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ", self.value)?;
        match self.interval {
            Some((low, high)) => write!(f, "({low:.3} .. {high:.3})"),
            None => f.write_str("(too few pairs)"),
        }
    }
}

/// The median of some ratios. Its interval is that of the sign test: the chance that the true median lies below the k-th
/// smallest of n values is that of fewer than k heads in n tosses, whatever the distribution. Nothing is assumed but that
/// pairs are independent. `None` for no ratios.
pub fn median(mut ratios: Vec<f64>) -> Option<Median> {
    ratios.sort_by(f64::total_cmp);
    let n = ratios.len();
    let value = (ratios.get(n / 2)? + ratios.get((n - 1) / 2)?) / 2.0;
    let interval = rank(n).map(|k| (ratios[k - 1], ratios[n - k]));
    Some(Median { value, interval })
}

/// The largest k for which fewer than k heads in n tosses have a chance of at most 2.5 %.
fn rank(n: usize) -> Option<usize> {
    let mut chance = 0.5f64.powi(i32::try_from(n).ok()?);
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

/// Runs two in turn, so many times, each time in an order that a coin decides; what each came to.
///
/// # Errors
/// As theirs.
pub fn in_turn<T>(
    pairs: usize,
    mut one: impl FnMut() -> Result<T>,
    mut other: impl FnMut() -> Result<T>,
) -> Result<Vec<(T, T)>> {
    let mut dice = Dice::new(SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64));
    let mut pair = || {
        if dice.toss() {
            let first = one()?;
            Ok((first, other()?))
        } else {
            let first = other()?;
            Ok((one()?, first))
        }
    };
    (0..pairs).map(|_| pair()).collect()
}

/// Numbers at random enough to shuffle with (xorshift64*).
pub struct Dice(u64);

impl Dice {
    /// Of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Heads or tails.
    pub fn toss(&mut self) -> bool {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 63 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks from tables of the sign test (Conover, Practical Nonparametric Statistics, table A3).
    #[test]
    fn ranks_are_those_of_the_tables() {
        assert_eq!(
            [5, 6, 8, 9, 10, 15, 20, 25].map(rank),
            [None, Some(1), Some(1), Some(2), Some(2), Some(4), Some(6), Some(8)]
        );
    }

    #[test]
    fn a_median_and_its_interval() {
        let found = median((1..=10).rev().map(f64::from).collect()).unwrap();
        assert_eq!(found, Median { value: 5.5, interval: Some((2.0, 9.0)) });
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(Median { value: 2.0, interval: None }));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn each_is_run_once_a_pair_and_both_come_first() {
        let order = std::cell::RefCell::new(String::new());
        let run = |name: char| {
            order.borrow_mut().push(name);
            Ok(name)
        };
        let pairs = in_turn(64, || run('a'), || run('b')).unwrap();
        assert_eq!(pairs, vec![('a', 'b'); 64]);
        let order = order.into_inner();
        let firsts: String = order.chars().step_by(2).collect();
        assert!(order.len() == 128 && firsts.contains('a') && firsts.contains('b'), "{order}");
    }

    #[test]
    fn dice_are_fair() {
        let mut dice = Dice::new(7);
        let heads = (0..10_000).filter(|_| dice.toss()).count();
        assert!((4_700..5_300).contains(&heads), "{heads}");
    }
}
