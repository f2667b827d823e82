//! A random order of all numbers below n, in constant memory.
//!
//! A generalised Feistel network (Black and Rogaway, 'Ciphers with arbitrary finite domains', 2002, section 4): a
//! permutation of [0, a·b) with a·b slightly above n; results beyond n are enciphered again (cycle walking, section 3).

/// A permutation of the numbers below `n`.
#[derive(Clone, Debug)]
pub(crate) struct Permutation {
    n: u64,
    a: u64,
    b: u64,
    keys: [u64; 4],
}

impl Permutation {
    /// Creates one of many permutations, selected by the seed; `n` is at least 1.
    pub(crate) fn new(n: u64, seed: u64) -> Self {
        let n = n.max(1);
        let root = n.isqrt();
        let a = root + u64::from(root * root < n);
        let keys = [1, 2, 3, 4].map(|round| mix(seed.wrapping_add(round)));
        Self { n, a, b: n.div_ceil(a), keys }
    }

    pub(crate) fn at(&self, index: u64) -> u64 {
        let mut x = index;
        loop {
            x = self.encipher(x);
            if x < self.n {
                return x;
            }
        }
    }

    fn encipher(&self, x: u64) -> u64 {
        let (mut left, mut right) = (x % self.a, x / self.a);
        for (round, key) in self.keys.iter().enumerate() {
            let modulus = if round % 2 == 0 { self.a } else { self.b };
            // No overflow: a and b are below 2^33, and the addend is reduced first.
            let next = (left + mix(right ^ key) % modulus) % modulus;
            (left, right) = (right, next);
        }
        self.a * right + left
    }
}

/// Applies the finaliser of SplitMix64 (Steele et al. 2014): every input bit affects every output bit.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn every_number_comes_once(n in 1_u64..2000, seed: u64) {
            let permutation = Permutation::new(n, seed);
            let seen: BTreeSet<u64> = (0..n).map(|i| permutation.at(i)).collect();
            prop_assert_eq!(seen, (0..n).collect());
        }

        #[test]
        fn large_domains_are_permuted_too(n in 1_u64.., seed: u64, index: u64) {
            let permutation = Permutation::new(n, seed);
            prop_assert!(permutation.at(index % n) < n);
        }
    }

    #[test]
    fn neighbours_are_scattered() {
        let permutation = Permutation::new(10_000, 7);
        let near = (1..10_000).filter(|&i| permutation.at(i).abs_diff(permutation.at(i - 1)) < 100).count();
        // By chance, 2 % would be within 100 of each other.
        assert!((100..300).contains(&near), "{near}");
    }
}
