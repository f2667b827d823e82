//! Pairs of runs in random order.

use crate::failure::Result;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs two programs in turn, each pair in random order.
///
/// # Errors
/// Passes on errors of the runs.
pub fn in_turn<T>(
    pairs: usize,
    mut one: impl FnMut() -> Result<T>,
    mut other: impl FnMut() -> Result<T>,
) -> Result<Vec<(T, T)>> {
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
    let mut random = SmallRng::seed_from_u64(seed);
    let mut pair = || {
        if random.random() {
            let first = one()?;
            Ok((first, other()?))
        } else {
            let first = other()?;
            Ok((one()?, first))
        }
    };
    (0..pairs).map(|_| pair()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_runs_once_per_pair_and_either_may_be_first() {
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
}
