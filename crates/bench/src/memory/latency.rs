//! Memory latency by working set and page size.

use super::WorkingSets;
use super::cpu_caches::ladder;
use crate::memory_region::{MemoryRegion, PageKind};
use crate::permutation::Permutation;
use crate::study::StudyContext;
use crate::study::{TimeBasis, repeat, times};
use crate::{Error, Result};
use std::hint::black_box;
use whyslow_documents::bench::{Measurement, Study};
use whyslow_model::human;

const METHOD: &str =
    "Pointer chase in random order, one read at a time (lmbench lat_mem_rd); with small pages it includes TLB misses.";

/// Number of 64-bit words per cache line: 64 bytes on nearly all CPUs.
const LINE: u64 = 8;
/// Reads between two clock reads.
const HOPS: u64 = 4096;
/// Minimum share of huge pages; below it, a caveat is added.
const MOSTLY: f64 = 0.95;

pub(super) fn study(context: &mut StudyContext, sets: &WorkingSets) -> Result<Study> {
    let mut figures = Vec::new();
    for &pages in &sets.pages {
        let mut region = map(context, sets.most, pages, None)?;
        for bytes in ladder(&sets.caches, sets.most) {
            let set = sets.working_set(bytes);
            if pages.fit(bytes, &context.root)
                && context.session.proceed_to(&format!("memory: latency of {set}, {}", pages.name()))
            {
                let links = PointerChain::lay(&mut region, bytes);
                figures.extend(time(context, links, context.topology.quiet_cpu(), &set, &pages.name())?);
            }
        }
        add_page_caveat(context, pages, &region);
    }
    let findings = findings(&figures, sets);
    Ok(Study { name: "latency".into(), method: METHOD.into(), figures, findings, ..Study::default() })
}

pub(super) fn map(context: &StudyContext, bytes: u64, pages: PageKind, node: Option<u32>) -> Result<MemoryRegion> {
    let bytes = if pages.fit(bytes, &context.root) { bytes } else { 1 };
    let failed = |e| Error::new(format!("{} of {}: {e}", human::quantity(bytes as f64, "bytes"), pages.name()));
    MemoryRegion::new(bytes, pages, node).map_err(failed)
}

pub(super) fn time(
    context: &StudyContext,
    links: PointerChain,
    cpu: u32,
    name: &str,
    under: &str,
) -> Result<Option<Measurement>> {
    let repeated = repeat(&[cpu], context.options(TimeBasis::OnCpu), |_| {
        let mut at = 0;
        Ok(move || {
            at = chase(links.0, at, HOPS);
            HOPS
        })
    })?;
    Ok(repeated.time(name, under))
}

fn add_page_caveat(context: &mut StudyContext, pages: PageKind, region: &MemoryRegion) {
    let share = region.share_in_large_pages().filter(|&share| pages == PageKind::Transparent && share < MOSTLY);
    if let Some(share) = share {
        let part = human::percent(share);
        context.session.caveats.push(format!("only {part} of the THP memory was in huge pages: memory is fragmented"));
    }
}

/// A pointer chain through cache lines: each holds the index of the next, in a cycle of random order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PointerChain<'r>(pub(crate) &'r [u64]);

impl<'r> PointerChain<'r> {
    pub(crate) fn lay(region: &'r mut MemoryRegion, bytes: u64) -> Self {
        let words = region.as_u64();
        let lines = (bytes / (LINE * 8)).clamp(1, words.len() as u64 / LINE);
        let order = Permutation::new(lines, 1);
        // Start before the first line of the order, so that the cycle closes.
        let mut before = order.at(lines - 1);
        for index in 0..lines {
            let line = order.at(index);
            words[(before * LINE) as usize] = line * LINE;
            before = line;
        }
        Self(words)
    }
}

pub(crate) fn chase(links: &[u64], from: u64, hops: u64) -> u64 {
    let mut at = from;
    for _ in 0..hops {
        at = links[at as usize];
    }
    black_box(at)
}

fn findings(figures: &[Measurement], sets: &WorkingSets) -> Vec<String> {
    let set = sets.working_set(sets.most);
    let of = |pages: PageKind| figures.iter().find(|f| f.name == set && f.under == pages.name());
    let Some(base) = of(PageKind::Base) else { return Vec::new() };
    let others = sets.pages.iter().filter(|&&pages| pages != PageKind::Base);
    let saved = |pages: &PageKind| {
        let (figure, name) = (of(*pages)?, pages.name());
        let (took, times) = (human::quantity(figure.value, "s"), times(figure, base));
        Some(format!("Memory latency ({set}): {took} with {name}, {times} that of small pages."))
    };
    others.filter_map(saved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pointer_chain_is_a_cycle_through_every_line() {
        let mut region = MemoryRegion::new(1 << 20, PageKind::Base, None).unwrap();
        for lines in [1_u64, 2, 3, 100, 1000] {
            let links = PointerChain::lay(&mut region, lines * LINE * 8);
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
    fn the_pointer_chain_is_in_random_order() {
        let mut region = MemoryRegion::new(1 << 20, PageKind::Base, None).unwrap();
        let links = PointerChain::lay(&mut region, 1 << 20);
        let near = |line: &u64| links.0[(line * LINE) as usize].abs_diff(line * LINE) < 32 * LINE;
        let count = (0_u64..1 << 14).filter(near).count();
        // By chance, 1 in 256 of 16,384 are within 32 lines.
        assert!((20..200).contains(&count), "{count}");
    }
}
