//! CPU workloads with different bottlenecks, so that sharing a core affects them differently.

use crate::memory::{PointerChain, chase};
use crate::memory_region::{MemoryRegion, PageKind};
use crate::{Error, Result};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::hint::black_box;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CpuWork {
    /// Each multiplication depends on the one before: latency-bound.
    Chain,
    /// Independent floating-point operations: limited by the execution units.
    Arithmetic,
    /// Sorting random numbers: unpredictable branches.
    Sorting,
    /// Each read depends on the one before: waits for memory.
    RandomReads,
    /// Sequential reads: limited by memory bandwidth.
    Streaming,
}

/// Operations between two clock reads.
const STEPS: u64 = 4096;
/// Number of values to sort; they fit into the L1 cache.
const NUMBERS: usize = 1024;
/// Memory of each thread; more than its share of the caches.
const MEMORY: u64 = 32 << 20;

impl CpuWork {
    pub(super) const ALL: [Self; 5] =
        [Self::Chain, Self::Arithmetic, Self::Sorting, Self::RandomReads, Self::Streaming];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Chain => "dependent multiplications",
            Self::Arithmetic => "independent floating point",
            Self::Sorting => "sorting numbers",
            Self::RandomReads => "random reads of memory",
            Self::Streaming => "reading memory in order",
        }
    }

    pub(super) fn unit(self) -> &'static str {
        if self == Self::Streaming { "bytes/s" } else { "1/s" }
    }

    /// Returns a function whose calls each do one unit of work and return its amount.
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

fn chain() -> impl FnMut() -> u64 {
    let mut x = 1_u64;
    move || {
        // If the compiler knew the factor, it would combine several steps.
        let factor = black_box(6_364_136_223_846_793_005_u64);
        for _ in 0..STEPS {
            x = factor.wrapping_mul(x).wrapping_add(1);
        }
        black_box(x);
        STEPS
    }
}

fn arithmetic() -> impl FnMut() -> u64 {
    /// More than any CPU keeps in flight (units times latency).
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
    let mut random = SmallRng::seed_from_u64(1);
    move || {
        numbers.fill_with(|| random.next_u64());
        numbers.sort_unstable();
        black_box(&mut numbers);
        NUMBERS as u64
    }
}

fn memory() -> Result<MemoryRegion> {
    let mapped = MemoryRegion::new(MEMORY, PageKind::Base, None);
    mapped.map_err(|e| Error::new(format!("cannot allocate memory to read: {e}")))
}

fn random_reads() -> Result<impl FnMut() -> u64> {
    let mut region = memory()?;
    PointerChain::lay(&mut region, MEMORY);
    let mut at = 0;
    Ok(move || {
        at = chase(region.as_u64(), at, STEPS / 16);
        STEPS / 16
    })
}

fn streaming() -> Result<impl FnMut() -> u64> {
    const PORTION: usize = 1 << 14;
    let mut region = memory()?;
    region.as_u64().fill(1);
    let mut at = 0;
    Ok(move || {
        let portions = region.as_u64().as_chunks::<PORTION>().0;
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
        for work in CpuWork::ALL {
            let mut step = work.prepare().unwrap();
            assert!(step() > 0 && step() > 0, "{work:?}");
        }
    }
}
