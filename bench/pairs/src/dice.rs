//! The order of a pair.

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

    #[test]
    fn dice_are_fair() {
        let mut dice = Dice::new(7);
        let heads = (0..10_000).filter(|_| dice.toss()).count();
        assert!((4_700..5_300).contains(&heads), "{heads}");
    }
}
