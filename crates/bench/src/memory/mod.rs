//! `bench memory`: what memory gives in a second, how long it takes to answer, and what a page fault costs.

mod bandwidth;
mod caches;
mod faults;
mod latency;
mod nodes;
mod passes;
mod region;
mod room;
mod slots;

pub(crate) use caches::{Cache, caches};
pub(crate) use latency::{Links, chase};
pub(crate) use region::{Pages, Region};
pub(crate) use room::available;
pub(crate) use slots::Slots;

use crate::error::{Error, Result};
use crate::round::Progress;
use crate::stop::Stop;
use crate::studies::Bench;
use whyslow_model::bench::{Kind, Report};
use whyslow_model::human;
use whyslow_sense::Root;

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The largest working set, bytes; none is several times the caches.
    pub most: Option<u64>,
    /// The time each figure is measured for, seconds.
    pub seconds: f64,
}

/// The smallest largest working set that tells anything.
const LEAST: u64 = 64 << 10;
/// The largest working set is so many times the last cache: of what is read again after that much else, nothing is left
/// in it (McCalpin, STREAM, 'Run Rules').
const TIMES_THE_CACHE: u64 = 4;
/// Within these: little caches are not the only ones there are, and more than this takes long to prepare.
const USUAL: (u64, u64) = (64 << 20, 256 << 20);
/// The part of the memory that is to be had which a working set may take. Three arrays are as large each.
const PART: u64 = 8;

/// Measures all of it. Ended before its time by `stop`, it reports what it has.
///
/// # Errors
/// Where there is too little memory, or threads cannot be had.
pub fn measure(asked: &Memory, stop: &Stop, watch: &mut dyn FnMut(Progress)) -> Result<Report> {
    let mut bench = Bench::begin(asked.seconds, stop, watch);
    let sets = Sets::of(&bench.root, asked.most)?;
    bench.session.caveats.extend(sets.caveats(&bench.root));
    bench.report(
        Kind::Memory,
        &[
            &|bench| bandwidth::study(bench, &sets),
            &|bench| latency::study(bench, &sets),
            &|bench| nodes::study(bench, &sets),
            &|bench| faults::study(bench, &sets),
        ],
    )
}

/// Which working sets there are, and in what pages.
struct Sets {
    caches: Vec<Cache>,
    /// The pages that are to be had.
    pages: Vec<Pages>,
    /// The largest working set, bytes.
    most: u64,
}

impl Sets {
    fn of(root: &Root, most: Option<u64>) -> Result<Self> {
        let caches = caches(root);
        let most = largest(most, &caches, available(root))?;
        Ok(Self { most, pages: Pages::to_be_had(root), caches })
    }

    /// What is to be borne in mind from the beginning.
    fn caveats(&self, root: &Root) -> Vec<String> {
        let mut caveats = Pages::missing(root, 3 * self.most);
        let last = self.caches.last().map_or(0, |cache| cache.bytes);
        if self.most < 2 * last {
            let size = |bytes| human::quantity(bytes as f64, "bytes");
            caveats.push(format!(
                "the largest working set, {}, is less than twice the last cache, {}: part of what is called memory is cache",
                size(self.most),
                size(last)
            ));
        }
        caveats
    }

    /// The largest pages of a usual mapping.
    fn usual_pages(&self) -> Pages {
        if self.pages.contains(&Pages::Transparent) { Pages::Transparent } else { Pages::Base }
    }

    /// The smallest cache that holds so much, by its name; `memory` where none does.
    fn level(&self, bytes: u64) -> &str {
        self.caches.iter().find(|cache| bytes <= cache.bytes).map_or("memory", |cache| &cache.name)
    }

    /// A working set, and where that is found again.
    fn working_set(&self, bytes: u64) -> String {
        format!("{} ({})", human::quantity(bytes as f64, "bytes"), self.level(bytes))
    }
}

/// The largest working set.
fn largest(asked: Option<u64>, caches: &[Cache], available: u64) -> Result<u64> {
    if let Some(asked) = asked.filter(|&asked| asked < LEAST) {
        return Err(Error::new(format!("--size of {asked} is too small: take at least 64K")));
    }
    let last = caches.last().map_or(0, |cache| cache.bytes);
    let usual = (last * TIMES_THE_CACHE).clamp(USUAL.0, USUAL.1);
    let most = asked.unwrap_or(usual.min(available / PART));
    if most < LEAST || most > available / PART * 2 {
        let human = human::quantity(available as f64, "bytes");
        return Err(Error::new(format!("not enough memory: {human} available; choose a smaller --size")));
    }
    Ok(most.next_multiple_of(LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn cache(bytes: u64) -> Vec<Cache> {
        vec![Cache { name: "L3".into(), bytes }]
    }

    #[test]
    fn the_largest_working_set_is_several_times_the_caches() {
        assert_eq!(largest(None, &cache(32 * MIB), 16 << 30), Ok(128 * MIB));
        assert_eq!(largest(None, &cache(4 * MIB), 16 << 30), Ok(64 * MIB));
        assert_eq!(largest(None, &cache(384 * MIB), 64 << 30), Ok(256 * MIB), "it has an end");
        assert_eq!(largest(None, &[], 256 * MIB), Ok(32 * MIB), "memory is not all taken");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(largest(Some(1024), &[], 1 << 30).unwrap_err().to_string().contains("at least 64K"));
        assert!(largest(Some(1 << 40), &[], 1 << 30).unwrap_err().to_string().contains("smaller --size"));
        assert!(largest(None, &[], 0).is_err());
    }
}
