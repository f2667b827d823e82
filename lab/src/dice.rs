//! The numbers a seed gives, so that nothing is tuned to one figure and every run can be had again.

/// A small generator (SplitMix64, Steele and others 2014): even, seedable and the same everywhere.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The numbers of one trial: they depend on the run's seed and the trial's name, not on what ran before it.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a keeps the names apart.
        Self(name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)))
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high - low + 1)
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.roll() as usize % choices.len()]
    }

    /// A port that nobody is likely to use: above the registered ones, below the ephemeral ones.
    pub fn port(&mut self) -> u16 {
        self.between(20_000, 32_000) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_and_name_give_the_same_numbers() {
        let (mut a, mut b) = (Dice::new(7, "x"), Dice::new(7, "x"));
        assert_eq!((a.roll(), a.roll()), (b.roll(), b.roll()));
        assert_ne!(Dice::new(7, "x").roll(), Dice::new(7, "y").roll());
        assert_ne!(Dice::new(7, "x").roll(), Dice::new(8, "x").roll());
    }

    #[test]
    fn both_ends_are_reached_and_never_passed() {
        let mut dice = Dice::new(1, "ends");
        let rolls: Vec<u64> = (0..200).map(|_| dice.between(3, 5)).collect();
        assert!(rolls.contains(&3) && rolls.contains(&5) && rolls.iter().all(|r| (3..=5).contains(r)));
    }
}
