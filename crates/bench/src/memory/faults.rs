//! What it costs that memory is there only when it is used.

use super::Sets;
use super::region::{Pages, Region, base_page, huge_page};
use crate::error::{Error, Result};
use crate::pinned::{Clock, Portion, repeat};
use crate::studies::Bench;
use nix::sys::resource::{UsageWho, getrusage};
use std::time::Instant;
use whyslow_model::bench::{Figure, Study};
use whyslow_model::human;

const METHOD: &str = "A thread writes a byte to each page of new memory, and the time is divided by the faults that the kernel counts \
(getrusage(2)): entering the kernel, finding a page, zeroing it, mapping it. Populated is the same memory with all its pages \
asked for in one call (madvise(2), MADV_POPULATE_WRITE), divided by its pages. Mapping and unmapping are not counted.";

/// How much new memory there is at a time.
const BYTES: u64 = 16 << 20;

pub(super) fn study(bench: &mut Bench, sets: &Sets) -> Result<Study> {
    let small = format!("{} page", size(base_page()));
    let large = format!("{} page (THP)", size(huge_page()));
    let mut figures = Vec::new();
    if bench.session.goes_on_to("page faults") {
        figures.extend(touched(bench, Pages::Base, base_page(), &small)?);
    }
    if sets.pages.contains(&Pages::Transparent) && bench.session.goes_on_to("page faults of huge pages") {
        figures.extend(touched(bench, Pages::Transparent, huge_page(), &large)?);
    }
    if bench.session.goes_on_to("populated memory") {
        match Region::map(BYTES, Pages::Base, None).and_then(|region| region.populate()) {
            Ok(()) => figures.extend(populated(bench, &small)?),
            Err(e) => {
                bench.session.caveats.push(format!("populating memory is not measured: MADV_POPULATE_WRITE: {e}"))
            }
        }
    }
    let findings = findings(&figures);
    Ok(Study { name: "page faults".into(), method: METHOD.into(), figures, findings })
}

fn size(bytes: usize) -> String {
    human::quantity(bytes as f64, "bytes")
}

fn new_memory(pages: Pages) -> Result<Region> {
    Region::map(BYTES, pages, None).map_err(|e| Error::new(format!("new memory of {}: {e}", pages.name())))
}

/// Each page is met by a fault.
fn touched(bench: &Bench, pages: Pages, page: usize, name: &str) -> Result<Option<Figure>> {
    let time = |_| {
        new_memory(pages)?;
        Ok(move || {
            aside(pages, |region| {
                let before = minor_faults();
                region.touch(page);
                minor_faults() - before
            })
        })
    };
    Ok(repeat(&[bench.processors.quiet()], bench.pace(Clock::Running), time)?.time(name, "on first touch"))
}

/// All pages are asked for at once.
fn populated(bench: &Bench, name: &str) -> Result<Option<Figure>> {
    let time = |_| {
        Ok(|| {
            aside(Pages::Base, |region| {
                // It was tried: where memory has run out since, no page counts.
                region.populate().map_or(0, |()| (region.bytes() / base_page()) as u64)
            })
        })
    };
    Ok(repeat(&[bench.processors.quiet()], bench.pace(Clock::Running), time)?.time(name, "populated"))
}

/// Does something with new memory; getting and giving it back is not counted.
fn aside(pages: Pages, work: impl FnOnce(&mut Region) -> u64) -> Portion {
    let began = Instant::now();
    // It was tried: where memory has run out since, nothing was done.
    let Ok(mut region) = new_memory(pages) else { return Portion { amount: 0, aside: began.elapsed() } };
    let mapped = Instant::now();
    let amount = work(&mut region);
    let worked = mapped.elapsed();
    drop(region);
    Portion { amount, aside: began.elapsed().saturating_sub(worked) }
}

/// Faults of this thread that needed no I/O.
fn minor_faults() -> u64 {
    // Refused only for a number that is not one of the three.
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |used| u64::try_from(used.minor_page_faults()).unwrap_or(0))
}

/// What the memory of one small page costs, each way.
fn findings(figures: &[Figure]) -> Vec<String> {
    let [small, large, ..] = figures else { return Vec::new() };
    let within = (huge_page() / base_page()) as f64;
    if !large.name.contains("THP") {
        return Vec::new();
    }
    let each = human::quantity(large.value / within, "s");
    vec![format!(
        "By huge pages {} of memory cost {each}: {:.2} times what they cost by small ones.",
        size(base_page()),
        large.value / within / small.value
    )]
}
