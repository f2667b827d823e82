//! Planned interim looks at an experiment, and the part of the allowed error that each spends: testing after every pair and
//! stopping at a good result would find a nonexistent effect in one of five trials.

use whyslow_compare::stats::paired::MOST_PAIRS;

/// A look at the pairs measured so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    pub(super) pairs: usize,
    /// Significance level at this look.
    pub(super) alpha: f64,
}

/// Plans `count` looks at even distances, the last after all `pairs`, that together spend `alpha`. Omits looks at which not even
/// unanimous pairs would be significant, given the number of tests to correct for.
///
/// The part spent by a look at the share t of the pairs is t cubed (Kim and DeMets, Biometrika 74, 1987): little early on, when
/// little is known. The parts are added up, so that no assumption about the dependence between looks is made.
pub(super) fn looks(pairs: usize, count: usize, alpha: f64, tests: usize) -> Result<Vec<Look>, usize> {
    let mut looks = Vec::new();
    let mut spent = 0.0;
    for number in 1..=count {
        let at = (pairs * number).div_ceil(count);
        let due = alpha * (at as f64 / pairs as f64).powi(3);
        if can_tell(at, due - spent, tests) {
            looks.push(Look { pairs: at, alpha: due - spent });
            spent = due;
        }
    }
    if looks.last().is_some_and(|look| look.pairs == pairs) {
        return Ok(looks);
    }
    // A single look at the end spends all of alpha, and needs the fewest pairs.
    if can_tell(pairs, alpha, tests) {
        return Ok(vec![Look { pairs, alpha }]);
    }
    Err((1..=MOST_PAIRS).find(|pairs| can_tell(*pairs, alpha, tests)).unwrap_or(MOST_PAIRS))
}

/// Whether the smallest p of this many pairs, when all agree, is small enough for the strictest of the tests.
fn can_tell(pairs: usize, alpha: f64, tests: usize) -> bool {
    2.0 * 0.5_f64.powi(i32::try_from(pairs).unwrap_or(i32::MAX)) <= alpha / tests.max(1) as f64
}

/// Alpha for successive tests whose later results are not known yet: each has an equal part, and a test that rejects passes its
/// alpha on to the next (the fall-back procedure of Wiens, Pharmaceutical Statistics 2, 2003).
#[derive(Clone, Copy, Debug)]
pub struct AlphaBudget {
    part: f64,
    next: f64,
}

impl AlphaBudget {
    /// Divides alpha among this many tests.
    pub fn new(alpha: f64, tests: usize) -> Self {
        let part = alpha / tests.max(1) as f64;
        Self { part, next: part }
    }

    /// Returns the alpha of the next test.
    pub fn next(&self) -> f64 {
        self.next
    }

    /// Records whether that test rejected.
    pub fn settle(&mut self, held: bool) {
        self.next = if held { self.next + self.part } else { self.part };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_spend_what_there_is() {
        let looks = looks(20, 4, 0.05, 1).unwrap();
        assert_eq!(looks.iter().map(|look| look.pairs).collect::<Vec<_>>(), [10, 15, 20]);
        assert!((looks.iter().map(|look| look.alpha).sum::<f64>() - 0.05).abs() < 1e-12);
        assert!(looks[0].alpha < looks[1].alpha);
    }

    #[test]
    fn six_pairs_tell_of_one_test_and_seven_of_two() {
        assert_eq!(looks(6, 1, 0.05, 1).unwrap(), [Look { pairs: 6, alpha: 0.05 }]);
        assert_eq!(looks(6, 1, 0.05, 2), Err(7));
        // An early look would leave too little for the end, so it is not planned.
        assert_eq!(looks(6, 2, 0.05, 1).unwrap(), [Look { pairs: 6, alpha: 0.05 }]);
    }

    #[test]
    fn what_held_hands_its_part_on() {
        let mut purse = AlphaBudget::new(0.06, 3);
        purse.settle(true);
        assert!((purse.next() - 0.04).abs() < 1e-12);
        purse.settle(false);
        assert!((purse.next() - 0.02).abs() < 1e-12);
    }
}
