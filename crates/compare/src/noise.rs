//! Noise of known memory, for tests.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, StandardNormal};

/// A series whose neighbours correlate by `memory`; mean 0, variance 1.
pub struct Noise {
    memory: f64,
    level: f64,
    random: SmallRng,
}

impl Noise {
    pub fn new(seed: u64, memory: f64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        Self { memory, level: StandardNormal.sample(&mut random), random }
    }

    pub fn next(&mut self) -> f64 {
        let normal: f64 = StandardNormal.sample(&mut self.random);
        self.level = self.memory * self.level + (1.0 - self.memory * self.memory).sqrt() * normal;
        self.level
    }
}
