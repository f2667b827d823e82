//! `bench memory`: bandwidth, latency, NUMA, and page faults.

mod bandwidth;
mod cpu_caches;
mod latency;
mod numa;
mod page_faults;
mod stream_kernels;

pub(crate) use cpu_caches::{CpuCache, cpu_caches};
pub(crate) use latency::{PointerChain, chase};

use crate::available_memory::available;
use crate::memory_region::PageKind;
use crate::study::StudyContext;
use crate::{Error, Progress, Result, Stop};
use whyslow_documents::bench::{BenchKind, BenchReport};
use whyslow_model::human;
use whyslow_sense::Root;

/// Options of `bench memory`.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// Largest working set in bytes; by default a multiple of the caches.
    pub most: Option<u64>,
    /// Measured time of each figure, seconds.
    pub seconds: f64,
}

const LEAST: u64 = 64 << 10;
/// Ratio of the largest working set to the last-level cache, so that nothing useful stays cached (McCalpin, STREAM,
/// 'Run Rules').
const TIMES_THE_CACHE: u64 = 4;
/// Bounds of the default working set: larger ones take long to prepare.
const USUAL: (u64, u64) = (64 << 20, 256 << 20);
/// A working set is at most this fraction of the available memory, because there are up to three arrays of that size.
const PART: u64 = 8;

/// Runs all studies. If stopped early, reports the results so far.
///
/// # Errors
/// Fails if there is too little memory or a thread cannot start.
pub fn measure(asked: &MemoryOptions, stop: &Stop, progress: &mut dyn FnMut(Progress)) -> Result<BenchReport> {
    let mut context = StudyContext::begin(asked.seconds, stop, progress);
    let sets = WorkingSets::read(&context.root, asked.most)?;
    context.session.caveats.extend(sets.caveats(&context.root));
    context.report(
        BenchKind::Memory,
        &[
            &|context| bandwidth::study(context, &sets),
            &|context| latency::study(context, &sets),
            &|context| numa::study(context, &sets),
            &|context| page_faults::study(context, &sets),
        ],
    )
}

struct WorkingSets {
    caches: Vec<CpuCache>,
    /// Kinds of pages available here.
    pages: Vec<PageKind>,
    /// Largest working set in bytes.
    most: u64,
}

impl WorkingSets {
    fn read(root: &Root, most: Option<u64>) -> Result<Self> {
        let caches = cpu_caches(root);
        let most = largest(most, &caches, available(root))?;
        Ok(Self { most, pages: PageKind::available(root), caches })
    }

    fn caveats(&self, root: &Root) -> Vec<String> {
        let mut caveats = PageKind::missing(root, 3 * self.most);
        let last = self.caches.last().map_or(0, |cache| cache.bytes);
        if self.most < 2 * last {
            caveats.push(format!(
                "the largest working set, {}, is less than twice the last cache, {}: part of it was cached (see --size)",
                human::bytes(self.most),
                human::bytes(last)
            ));
        }
        caveats
    }

    /// Returns the page kind of an ordinary mapping.
    fn usual_pages(&self) -> PageKind {
        if self.pages.contains(&PageKind::Transparent) { PageKind::Transparent } else { PageKind::Base }
    }

    /// Returns the smallest cache that holds a working set, or `memory`.
    fn level(&self, bytes: u64) -> &str {
        self.caches.iter().find(|cache| bytes <= cache.bytes).map_or("memory", |cache| &cache.name)
    }

    fn working_set(&self, bytes: u64) -> String {
        format!("{} ({})", human::quantity(bytes as f64, "bytes"), self.level(bytes))
    }
}

fn largest(asked: Option<u64>, caches: &[CpuCache], available: u64) -> Result<u64> {
    if let Some(asked) = asked.filter(|&asked| asked < LEAST) {
        return Err(Error::new(format!("--size {asked} is too small: choose at least 64K")));
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

    fn cache(bytes: u64) -> Vec<CpuCache> {
        vec![CpuCache { name: "L3".into(), bytes }]
    }

    #[test]
    fn the_largest_working_set_is_several_times_the_caches() {
        assert_eq!(largest(None, &cache(32 * MIB), 16 << 30), Ok(128 * MIB));
        assert_eq!(largest(None, &cache(4 * MIB), 16 << 30), Ok(64 * MIB));
        assert_eq!(largest(None, &cache(384 * MIB), 64 << 30), Ok(256 * MIB), "it has an end");
        assert_eq!(largest(None, &[], 256 * MIB), Ok(32 * MIB), "memory is not all taken");
    }

    #[test]
    fn impossible_sizes_are_refused() {
        assert!(largest(Some(1024), &[], 1 << 30).unwrap_err().to_string().contains("at least 64K"));
        assert!(largest(Some(1 << 40), &[], 1 << 30).unwrap_err().to_string().contains("smaller --size"));
        assert!(largest(None, &[], 0).is_err());
    }
}
