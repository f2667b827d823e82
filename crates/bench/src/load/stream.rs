//! Which request comes next.

use super::permutation::Permutation;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use std::fmt;
use whyslow_model::bench::{Access, Block, Workload};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Write,
    Sync,
}

/// A request to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) action: Action,
    /// Where in the target; 0 for a sync.
    pub(crate) offset: u64,
    /// How much; 0 for a sync.
    pub(crate) bytes: u32,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { action, offset, bytes } = self;
        match action {
            Action::Read => write!(f, "read of {bytes} bytes at {offset}"),
            Action::Write => write!(f, "write of {bytes} bytes at {offset}"),
            Action::Sync => f.write_str("sync"),
        }
    }
}

/// The requests of one job, in order.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    random: SmallRng,
    reads: f64,
    rewrites: bool,
    /// The block that was read and is to be written back, and its size.
    read: Option<(u64, u32)>,
    directions: [Direction; 2],
    /// Bytes left to ask for; none is no end.
    left: Option<u64>,
    sync: Option<Countdown>,
}

impl Stream {
    /// The requests of job number `job` of a workload.
    pub(crate) fn new(load: &Workload, job: u32) -> Self {
        let region = Region::of(load, job);
        let seed = load.seed.wrapping_add(u64::from(job).wrapping_mul(0x1_0000_0001));
        let direction = |blocks: &[Block], salt| Direction::new(load.access, blocks, region, seed ^ salt);
        Self {
            random: SmallRng::seed_from_u64(seed),
            reads: load.reads,
            rewrites: load.rewrite,
            read: None,
            directions: [direction(&load.read_blocks, 0), direction(&load.write_blocks, 1 << 63)],
            left: load.bytes.or_else(|| load.seconds.is_none().then_some(region.size)),
            sync: load.sync.and_then(|sync| sync.every).map(Countdown::new),
        }
    }

    /// The next request; none where all bytes are asked for.
    pub(crate) fn next(&mut self) -> Option<Request> {
        if self.sync.as_mut().is_some_and(Countdown::is_due) {
            return Some(Request { action: Action::Sync, offset: 0, bytes: 0 });
        }
        if self.left == Some(0) {
            return None;
        }
        let (action, offset, bytes) = self.place();
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(u64::from(bytes));
        }
        if let (Action::Write, Some(sync)) = (action, &mut self.sync) {
            sync.write();
        }
        Some(Request { action, offset, bytes })
    }

    /// What the next does, where, and how much.
    fn place(&mut self) -> (Action, u64, u32) {
        if let Some((offset, bytes)) = self.read.take() {
            return (Action::Write, offset, bytes);
        }
        let reads =
            self.rewrites || self.reads >= 1.0 || (self.reads > 0.0 && self.random.random::<f64>() < self.reads);
        let (action, direction) = if reads { (Action::Read, 0) } else { (Action::Write, 1) };
        let (offset, bytes) = self.directions[direction].next(&mut self.random);
        self.read = self.rewrites.then_some((offset, bytes));
        (action, offset, bytes)
    }
}

/// Counts writes until the next sync.
#[derive(Clone, Copy, Debug)]
struct Countdown {
    every: u32,
    writes: u32,
}

impl Countdown {
    fn new(every: u32) -> Self {
        Self { every: every.max(1), writes: 0 }
    }

    fn write(&mut self) {
        self.writes += 1;
    }

    /// Whether enough was written since the last; if so it begins anew.
    fn is_due(&mut self) -> bool {
        let due = self.writes >= self.every;
        if due {
            self.writes = 0;
        }
        due
    }
}

/// The part of a target that a job's requests go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Region {
    start: u64,
    size: u64,
}

impl Region {
    /// Jobs that go forward may share the region out among them, or they would read what another had just had read; jobs
    /// that go anywhere all have the whole of it.
    fn of(load: &Workload, job: u32) -> Self {
        let forward = matches!(load.access, Access::Sequential | Access::Strided(_));
        if !(load.split && forward) || load.jobs <= 1 {
            return Self { start: load.start, size: load.size };
        }
        let block = u64::from(load.largest_block().max(1));
        let part = (load.size / u64::from(load.jobs) / block * block).max(block.min(load.size));
        // Where there are more jobs than blocks, some share one.
        let start = (part * u64::from(job)).min(load.size - part.min(load.size));
        Self { start: load.start + start, size: part }
    }
}

/// The requests of one direction: where and how large.
#[derive(Clone, Debug)]
struct Direction {
    region: Region,
    sizes: Sizes,
    place: Place,
    /// What places are counted in: the smallest block.
    unit: u64,
}

#[derive(Clone, Debug)]
enum Place {
    /// The offset of the next in the region, and how far it is from the end of one to the start of the next.
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

impl Direction {
    fn new(access: Access, blocks: &[Block], region: Region, seed: u64) -> Self {
        let unit = u64::from(blocks.iter().map(|block| block.bytes).min().unwrap_or(1).max(1));
        let units = (region.size / unit).max(1);
        let place = match access {
            Access::Sequential => Place::Forward { next: 0, gap: 0 },
            // Backward begins at the end.
            Access::Strided(gap) if gap < 0 => Place::Forward { next: (units - 1) * unit, gap },
            Access::Strided(gap) => Place::Forward { next: 0, gap },
            // Requests of several sizes cannot each come once without overlapping.
            Access::Shuffled if blocks.len() == 1 => {
                Place::Shuffled { order: Permutation::new(units, seed), index: 0, seed }
            }
            Access::Zipf(theta) => match Zipf::new(units as f64, theta) {
                Ok(rank) => Place::Zipf { rank, order: Permutation::new(units, seed) },
                Err(_) => Place::Anywhere,
            },
            Access::Uniform | Access::Shuffled => Place::Anywhere,
        };
        Self { region, sizes: Sizes::new(blocks), place, unit }
    }

    fn next(&mut self, random: &mut SmallRng) -> (u64, u32) {
        let bytes = self.sizes.next(random);
        let units = (self.region.size / self.unit).max(1);
        let offset = match &mut self.place {
            Place::Forward { next, gap } => {
                let at = if *next + u64::from(bytes) > self.region.size { 0 } else { *next };
                *next = step(at, i64::from(bytes).saturating_add(*gap), self.region.size, self.unit);
                at
            }
            Place::Anywhere => random.random_range(0..units) * self.unit,
            Place::Shuffled { order, index, seed } => {
                if *index == units {
                    *seed = seed.wrapping_add(1);
                    (*order, *index) = (Permutation::new(units, *seed), 0);
                }
                *index += 1;
                order.at(*index - 1) * self.unit
            }
            // A sample is a whole number from 1 to n, whatever its type.
            Place::Zipf { rank, order } => order.at((rank.sample(random) as u64 - 1).min(units - 1)) * self.unit,
        };
        // A block larger than the unit must not reach beyond the end.
        let last = self.region.size.saturating_sub(u64::from(bytes)) / self.unit * self.unit;
        (self.region.start + offset.min(last), bytes)
    }
}

/// The offset `by` bytes on; past either end it begins anew at the other.
fn step(at: u64, by: i64, size: u64, unit: u64) -> u64 {
    match at.checked_add_signed(by) {
        Some(next) if next < size => next,
        Some(_) => 0,
        None => (size / unit).saturating_sub(1) * unit,
    }
}

/// Sizes by their shares.
#[derive(Clone, Debug)]
struct Sizes {
    /// The share of this and all smaller places in the list, and the size.
    upto: Vec<(f64, u32)>,
}

impl Sizes {
    fn new(blocks: &[Block]) -> Self {
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
#[path = "stream_tests.rs"]
mod tests;
