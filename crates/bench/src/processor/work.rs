//! Work for processors: kinds that are bound by different things, so that sharing a core tells on them differently.

use crate::error::{Error, Result};
use crate::memory::{Links, Pages, Region, chase};
use std::hint::black_box;

/// A kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Multiplications each of which needs the one before: the processor mostly waits for itself.
    Chain,
    /// Floating-point multiplications and additions that need nothing of each other: its units are full.
    Arithmetic,
    /// Sorting random numbers: branches that cannot be foreseen, and caches.
    Sorting,
    /// Reads of memory each of which needs the one before: it waits for memory.
    RandomReads,
    /// Reads of memory in order.
    Streaming,
}

/// Between two looks at the clock.
const STEPS: u64 = 4096;
/// What is sorted at a time: it fits into the first cache.
const NUMBERS: usize = 1024;
/// The memory of each thread; more than its share of the caches.
const MEMORY: u64 = 32 << 20;

impl Work {
    pub(super) const ALL: [Self; 5] =
        [Self::Chain, Self::Arithmetic, Self::Sorting, Self::RandomReads, Self::Streaming];

    /// In words.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Chain => "dependent multiplications",
            Self::Arithmetic => "independent floating point",
            Self::Sorting => "sorting numbers",
            Self::RandomReads => "random reads of memory",
            Self::Streaming => "reading memory in order",
        }
    }

    /// What its rate counts.
    pub(super) fn unit(self) -> &'static str {
        if self == Self::Streaming { "bytes/s" } else { "1/s" }
    }

    /// Prepares it, where it is to be done; each call of what is returned does a portion, and says how much that is.
    pub(super) fn prepare(self) -> Result<Box<dyn FnMut() -> u64>> {
        Ok(match self {
            Self::Chain => Box::new(chain()),
            Self::Arithmetic => Box::new(arithmetic()),
            Self::Sorting => Box::new(sorting()),
            Self::RandomReads => Box::new(random_reads()?),
            Self::Streaming => Box::new(streaming()?),
        })
    }
}

/// The factor of a linear congruential generator (Knuth, TAOCP 2, 3.3.4, line 26).
const FACTOR: u64 = 6_364_136_223_846_793_005;

fn step(x: u64, factor: u64) -> u64 {
    x.wrapping_mul(factor).wrapping_add(1)
}

fn chain() -> impl FnMut() -> u64 {
    let mut x = 1;
    move || {
        // Were the factor known to the compiler, it would take several steps at once.
        let factor = black_box(FACTOR);
        for _ in 0..STEPS {
            x = step(x, factor);
        }
        black_box(x);
        STEPS
    }
}

fn arithmetic() -> impl FnMut() -> u64 {
    /// More than any processor has in flight: units times latency.
    const LANES: usize = 64;
    let mut sums = [1.0_f64; LANES];
    move || {
        let (factor, term) = black_box((0.999_999, 1e-6));
        for _ in 0..STEPS / LANES as u64 {
            sums.iter_mut().for_each(|sum| *sum = *sum * factor + term);
        }
        black_box(&mut sums);
        STEPS
    }
}

fn sorting() -> impl FnMut() -> u64 {
    let mut numbers = vec![0_u64; NUMBERS];
    let mut x = 1;
    move || {
        for number in &mut numbers {
            x = step(x, FACTOR);
            // The high bits are the random ones.
            *number = x >> 16;
        }
        numbers.sort_unstable();
        black_box(&mut numbers);
        NUMBERS as u64
    }
}

fn memory() -> Result<Region> {
    let mapped = Region::map(MEMORY, Pages::Base, None);
    mapped.map_err(|e| Error::new(format!("memory to read: {e}")))
}

fn random_reads() -> Result<impl FnMut() -> u64> {
    let mut region = memory()?;
    Links::lay(&mut region, MEMORY);
    let mut at = 0;
    Ok(move || {
        at = chase(region.words(), at, STEPS / 16);
        STEPS / 16
    })
}

fn streaming() -> Result<impl FnMut() -> u64> {
    const PORTION: usize = 1 << 14;
    let mut region = memory()?;
    region.words().fill(1);
    let mut at = 0;
    Ok(move || {
        let portions = region.words().as_chunks::<PORTION>().0;
        black_box(portions[at].iter().fold(0_u64, |sum, word| sum.wrapping_add(*word)));
        at = (at + 1) % portions.len();
        size_of::<[u64; PORTION]>() as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_work_is_done() {
        for work in Work::ALL {
            let mut portion = work.prepare().unwrap();
            assert!(portion() > 0 && portion() > 0, "{work:?}");
        }
    }
}
