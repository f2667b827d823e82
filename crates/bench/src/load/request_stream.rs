//! The sequence of requests of a job.

use crate::engine::{IoOp, IoRequest};
use crate::permutation::Permutation;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use whyslow_documents::bench::{AccessPattern, BlockSize, Workload};

#[derive(Clone, Debug)]
pub(crate) struct RequestStream {
    random: SmallRng,
    reads: f64,
    rewrites: bool,
    /// Block that was read and is rewritten next.
    read: Option<(u64, u32)>,
    directions: [DirectionStream; 2],
    /// Bytes left to request; `None` without a limit.
    left: Option<u64>,
    sync: Option<SyncCountdown>,
}

impl RequestStream {
    pub(crate) fn new(load: &Workload, job: u32) -> Self {
        let region = OffsetRange::for_job(load, job);
        let seed = load.seed.wrapping_add(u64::from(job).wrapping_mul(0x1_0000_0001));
        let direction = |blocks: &[BlockSize], salt| DirectionStream::new(load.access, blocks, region, seed ^ salt);
        Self {
            random: SmallRng::seed_from_u64(seed),
            reads: load.reads,
            rewrites: load.rewrite,
            read: None,
            directions: [direction(&load.read_blocks, 0), direction(&load.write_blocks, 1 << 63)],
            left: load.bytes.or_else(|| load.seconds.is_none().then_some(region.size)),
            sync: load.sync.and_then(|sync| sync.every).map(SyncCountdown::new),
        }
    }

    /// Returns the next request; `None` when all bytes were requested.
    pub(crate) fn next(&mut self) -> Option<IoRequest> {
        if self.sync.as_mut().is_some_and(SyncCountdown::is_due) {
            return Some(IoRequest { action: IoOp::Sync, offset: 0, bytes: 0 });
        }
        if self.left == Some(0) {
            return None;
        }
        let (action, offset, bytes) = self.place();
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(u64::from(bytes));
        }
        if let (IoOp::Write, Some(sync)) = (action, &mut self.sync) {
            sync.write();
        }
        Some(IoRequest { action, offset, bytes })
    }

    fn place(&mut self) -> (IoOp, u64, u32) {
        if let Some((offset, bytes)) = self.read.take() {
            return (IoOp::Write, offset, bytes);
        }
        let reads =
            self.rewrites || self.reads >= 1.0 || (self.reads > 0.0 && self.random.random::<f64>() < self.reads);
        let (action, direction) = if reads { (IoOp::Read, 0) } else { (IoOp::Write, 1) };
        let (offset, bytes) = self.directions[direction].next(&mut self.random);
        self.read = self.rewrites.then_some((offset, bytes));
        (action, offset, bytes)
    }
}

/// Counts writes until the next sync.
#[derive(Clone, Copy, Debug)]
struct SyncCountdown {
    every: u32,
    writes: u32,
}

impl SyncCountdown {
    fn new(every: u32) -> Self {
        Self { every: every.max(1), writes: 0 }
    }

    fn write(&mut self) {
        self.writes += 1;
    }

    /// Returns whether a sync is due, and restarts the count if so.
    fn is_due(&mut self) -> bool {
        let due = self.writes >= self.every;
        if due {
            self.writes = 0;
        }
        due
    }
}

/// Part of a target that a job sends requests to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OffsetRange {
    start: u64,
    size: u64,
}

impl OffsetRange {
    /// Returns the range of a job. Jobs with forward access may split the region, so that they do not read each other's
    /// cached data; random jobs all use the whole region.
    fn for_job(load: &Workload, job: u32) -> Self {
        let forward = matches!(load.access, AccessPattern::Sequential | AccessPattern::Strided(_));
        if !(load.split && forward) || load.jobs <= 1 {
            return Self { start: load.start, size: load.size };
        }
        let block = u64::from(load.largest_block().max(1));
        let part = (load.size / u64::from(load.jobs) / block * block).max(block.min(load.size));
        // With more jobs than blocks, some share a block.
        let start = (part * u64::from(job)).min(load.size - part.min(load.size));
        Self { start: load.start + start, size: part }
    }
}

/// Offsets and sizes of reads or of writes.
#[derive(Clone, Debug)]
struct DirectionStream {
    region: OffsetRange,
    sizes: BlockSizes,
    place: OffsetPattern,
    /// Smallest block size; offsets are multiples of it.
    unit: u64,
}

#[derive(Clone, Debug)]
enum OffsetPattern {
    /// Next offset in the region, and the gap between requests.
    Forward {
        next: u64,
        gap: i64,
    },
    Anywhere,
    Shuffled {
        order: Permutation,
        index: u64,
        seed: u64,
    },
    Zipf {
        rank: Zipf<f64>,
        order: Permutation,
    },
}

impl DirectionStream {
    fn new(access: AccessPattern, blocks: &[BlockSize], region: OffsetRange, seed: u64) -> Self {
        let unit = u64::from(blocks.iter().map(|block| block.bytes).min().unwrap_or(1).max(1));
        let units = (region.size / unit).max(1);
        let place = match access {
            AccessPattern::Sequential => OffsetPattern::Forward { next: 0, gap: 0 },
            // Backward access starts at the end.
            AccessPattern::Strided(gap) if gap < 0 => OffsetPattern::Forward { next: (units - 1) * unit, gap },
            AccessPattern::Strided(gap) => OffsetPattern::Forward { next: 0, gap },
            // Shuffled blocks of several sizes would overlap.
            AccessPattern::Shuffled if blocks.len() == 1 => {
                OffsetPattern::Shuffled { order: Permutation::new(units, seed), index: 0, seed }
            }
            AccessPattern::Zipf(theta) => match Zipf::new(units as f64, theta) {
                Ok(rank) => OffsetPattern::Zipf { rank, order: Permutation::new(units, seed) },
                Err(_) => OffsetPattern::Anywhere,
            },
            AccessPattern::Uniform | AccessPattern::Shuffled => OffsetPattern::Anywhere,
        };
        Self { region, sizes: BlockSizes::new(blocks), place, unit }
    }

    fn next(&mut self, random: &mut SmallRng) -> (u64, u32) {
        let bytes = self.sizes.next(random);
        let units = (self.region.size / self.unit).max(1);
        let offset = match &mut self.place {
            OffsetPattern::Forward { next, gap } => {
                let at = if *next + u64::from(bytes) > self.region.size { 0 } else { *next };
                *next = step(at, i64::from(bytes).saturating_add(*gap), self.region.size, self.unit);
                at
            }
            OffsetPattern::Anywhere => random.random_range(0..units) * self.unit,
            OffsetPattern::Shuffled { order, index, seed } => {
                if *index == units {
                    *seed = seed.wrapping_add(1);
                    (*order, *index) = (Permutation::new(units, *seed), 0);
                }
                *index += 1;
                order.at(*index - 1) * self.unit
            }
            // Samples are whole numbers from 1 to n.
            OffsetPattern::Zipf { rank, order } => {
                order.at((rank.sample(random) as u64 - 1).min(units - 1)) * self.unit
            }
        };
        // A block larger than the unit must end within the region.
        let last = self.region.size.saturating_sub(u64::from(bytes)) / self.unit * self.unit;
        (self.region.start + offset.min(last), bytes)
    }
}

/// Advances by `by` bytes and wraps around at either end.
fn step(at: u64, by: i64, size: u64, unit: u64) -> u64 {
    match at.checked_add_signed(by) {
        Some(next) if next < size => next,
        Some(_) => 0,
        None => (size / unit).saturating_sub(1) * unit,
    }
}

#[derive(Clone, Debug)]
struct BlockSizes {
    /// Cumulative share and size.
    upto: Vec<(f64, u32)>,
}

impl BlockSizes {
    fn new(blocks: &[BlockSize]) -> Self {
        let whole: f64 = blocks.iter().map(|block| block.share).sum();
        let mut below = 0.0;
        let upto = blocks.iter().map(|block| {
            below += block.share / whole;
            (below, block.bytes)
        });
        Self { upto: upto.collect() }
    }

    fn next(&self, random: &mut SmallRng) -> u32 {
        match self.upto[..] {
            [] => 0,
            [(_, only)] => only,
            [.., (_, last)] => {
                let draw = random.random::<f64>();
                self.upto.iter().find(|(below, _)| draw < *below).map_or(last, |(_, bytes)| *bytes)
            }
        }
    }
}

#[cfg(test)]
#[path = "request_stream_tests.rs"]
mod tests;
