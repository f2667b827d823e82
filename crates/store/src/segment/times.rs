//! When rows are: the entities of a table share the times of its samples, so that each is held once.

use std::collections::HashMap;
use std::ops::Range;

/// The times of rows, nanoseconds since 1970.
#[derive(Debug, Default)]
pub(super) struct Times {
    /// Each time that occurs, as they came.
    all: Vec<i64>,
    /// Where each of them is.
    known: HashMap<i64, usize>,
    /// The places of rows that follow one another.
    stretches: Vec<Range<usize>>,
    rows: usize,
}

impl Times {
    /// Adds a row at each of these times.
    pub(super) fn push(&mut self, at: &[i64]) {
        self.rows += at.len();
        let mut left = at;
        while let Some(first) = left.first() {
            let start = *self.known.entry(*first).or_insert(self.all.len());
            if start == self.all.len() {
                self.all.push(*first);
            }
            let same = self.all[start..].iter().zip(left).take_while(|(known, at)| known == at).count();
            match self.stretches.last_mut() {
                Some(last) if last.end == start => last.end += same,
                _ => self.stretches.push(start..start + same),
            }
            left = &left[same..];
        }
    }

    /// Each time that occurs.
    pub(super) fn all(&self) -> &[i64] {
        &self.all
    }

    /// The place of each row's time among all.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> {
        self.stretches.iter().cloned().flatten()
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn times_come_back(stretches in prop::collection::vec(prop::collection::vec(0..20_i64, 0..20), 0..30)) {
            let mut times = Times::default();
            stretches.iter().for_each(|at| times.push(at));
            let pushed = stretches.concat();
            prop_assert_eq!(times.rows(), pushed.len());
            prop_assert_eq!(times.places().map(|place| times.all()[place]).collect::<Vec<_>>(), pushed.clone());
            let mut each_once = pushed;
            each_once.sort_unstable();
            each_once.dedup();
            prop_assert_eq!(times.all().len(), each_once.len());
        }
    }

    #[test]
    fn entities_that_were_read_together_are_one_stretch_each() {
        let mut times = Times::default();
        let all: Vec<i64> = (0..600).collect();
        for at in [&all[..], &all[..300], &all[300..], &all[7..9]] {
            times.push(at);
        }
        assert_eq!(times.all, all);
        assert_eq!(times.stretches, [0..600, 0..600, 7..9]);
    }
}
