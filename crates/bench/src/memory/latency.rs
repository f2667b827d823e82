//! How long memory takes to answer, by working set and pages.

use super::Sets;
use super::caches::ladder;
use super::region::{Pages, Region};
use crate::error::{Error, Result};
use crate::load::Permutation;
use crate::pinned::{Clock, repeat, times};
use crate::studies::Bench;
use std::hint::black_box;
use whyslow_model::bench::{Figure, Study};
use whyslow_model::human;

const METHOD: &str = "One thread follows links through every line of the working set once, in random order, and over again: where \
the next line is stands in this one, so that each read waits for the one before (lmbench, lat_mem_rd). With small pages the time \
holds what finding the address of a page takes.";

/// What a cache holds of memory at once, 64-bit words: 64 bytes on all processors but few.
const LINE: u64 = 8;
/// Links that are followed between two looks at the clock.
const HOPS: u64 = 4096;
/// With transparent huge pages is meant, where at least this part of the memory is in them.
const MOSTLY: f64 = 0.95;

pub(super) fn study(bench: &mut Bench, sets: &Sets) -> Result<Study> {
    let mut figures = Vec::new();
    for &pages in &sets.pages {
        let mut region = map(bench, sets.most, pages, None)?;
        for bytes in ladder(&sets.caches, sets.most) {
            let set = sets.working_set(bytes);
            if pages.hold(bytes, &bench.root)
                && bench.session.goes_on_to(&format!("memory: latency of {set}, {}", pages.name()))
            {
                let links = Links::lay(&mut region, bytes);
                figures.extend(time(bench, links, bench.processors.quiet(), &set, &pages.name())?);
            }
        }
        mind_pages(bench, pages, &region);
    }
    let findings = findings(&figures, sets);
    Ok(Study { name: "latency".into(), method: METHOD.into(), figures, findings })
}

/// Memory of these pages.
pub(super) fn map(bench: &Bench, bytes: u64, pages: Pages, node: Option<u32>) -> Result<Region> {
    let bytes = if pages.hold(bytes, &bench.root) { bytes } else { 1 };
    let failed = |e| Error::new(format!("{} of {}: {e}", human::quantity(bytes as f64, "bytes"), pages.name()));
    Region::map(bytes, pages, node).map_err(failed)
}

/// The time of one read.
pub(super) fn time(bench: &Bench, links: Links, cpu: u32, name: &str, under: &str) -> Result<Option<Figure>> {
    let repeated = repeat(&[cpu], bench.pace(Clock::Running), |_| {
        let mut at = 0;
        Ok(move || {
            at = chase(links.0, at, HOPS);
            HOPS
        })
    })?;
    Ok(repeated.time(name, under))
}

/// Says so, where pages are not as large as they were to be.
fn mind_pages(bench: &mut Bench, pages: Pages, region: &Region) {
    let share = region.share_in_large_pages().filter(|&share| pages == Pages::Transparent && share < MOSTLY);
    if let Some(share) = share {
        let part = human::percent(share);
        bench
            .session
            .caveats
            .push(format!("of what is called THP only {part} was in huge pages: memory is fragmented"));
    }
}

/// Lines of memory, each of which begins with the place of another: one ring, in random order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links<'r>(pub(crate) &'r [u64]);

impl<'r> Links<'r> {
    /// Through the first `bytes` of a region.
    pub(crate) fn lay(region: &'r mut Region, bytes: u64) -> Self {
        let words = region.words();
        let lines = (bytes / (LINE * 8)).clamp(1, words.len() as u64 / LINE);
        let order = Permutation::new(lines, 1);
        // The ring may begin anywhere, and so also at the line that comes first in memory.
        let mut before = order.at(lines - 1);
        for index in 0..lines {
            let line = order.at(index);
            words[(before * LINE) as usize] = line * LINE;
            before = line;
        }
        Self(words)
    }
}

/// Follows so many links from a place on; where that leads.
pub(crate) fn chase(links: &[u64], from: u64, hops: u64) -> u64 {
    let mut at = from;
    for _ in 0..hops {
        at = links[at as usize];
    }
    black_box(at)
}

/// What memory takes, and what large pages save.
fn findings(figures: &[Figure], sets: &Sets) -> Vec<String> {
    let set = sets.working_set(sets.most);
    let of = |pages: Pages| figures.iter().find(|f| f.name == set && f.under == pages.name());
    let Some(base) = of(Pages::Base) else { return Vec::new() };
    let others = sets.pages.iter().filter(|&&pages| pages != Pages::Base);
    let saved = |pages: &Pages| {
        let (figure, name) = (of(*pages)?, pages.name());
        let (took, times) = (human::quantity(figure.value, "s"), times(figure, base));
        Some(format!("With {name} a random read of {set} takes {took}: {times} what it takes with small pages."))
    };
    others.filter_map(saved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_through_every_line_once_and_back() {
        let mut region = Region::map(1 << 20, Pages::Base, None).unwrap();
        for lines in [1_u64, 2, 3, 100, 1000] {
            let links = Links::lay(&mut region, lines * LINE * 8);
            let mut seen = vec![false; lines as usize];
            let mut at = 0;
            for _ in 0..lines {
                assert!(!std::mem::replace(&mut seen[(at / LINE) as usize], true), "{at} comes twice of {lines}");
                at = chase(links.0, at, 1);
            }
            assert_eq!(at, 0, "{lines} lines are no ring");
        }
    }

    #[test]
    fn links_are_in_no_order_that_could_be_guessed() {
        let mut region = Region::map(1 << 20, Pages::Base, None).unwrap();
        let links = Links::lay(&mut region, 1 << 20);
        let near = |line: &u64| links.0[(line * LINE) as usize].abs_diff(line * LINE) < 32 * LINE;
        let count = (0_u64..1 << 14).filter(near).count();
        // By chance 1 in 256 of 16384 are within 32 lines.
        assert!((20..200).contains(&count), "{count}");
    }
}
