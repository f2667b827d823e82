//! Noise of known memory, for tests.

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
