//! The order of a pair.

use crate::failure::Result;
use std::time::{SystemTime, UNIX_EPOCH};

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
struct Dice(u64);

impl Dice {
    /// Of this seed.
    fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Heads or tails.
    fn toss(&mut self) -> bool {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 63 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
