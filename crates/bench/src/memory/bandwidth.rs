//! How much memory gives and takes in a second: by working set, by pages, and to all processors at once.

use super::passes::{Arrays, Pass};
use super::region::{Pages, Region};
use super::{Cache, Sets};
use crate::error::{Error, Result};
use crate::pinned::{Clock, repeat, times};
use crate::studies::Bench;
use whyslow_model::bench::{Figure, Study};
use whyslow_model::human;

const METHOD: &str = "One thread, or one on each processor, goes through arrays of 64-bit numbers for a while: sums one up (read), \
fills one (write), one into another (copy), one plus a multiple of another into a third (triad). Counted is what STREAM counts: \
eight bytes for each number read and each written; that a usual store reads its line first is not. Non-temporal stores do not. \
In memory each array is as long as the working set says, in a cache all together are.";

/// A portion of the work takes some microseconds at least: the clock is read after each.
const LEAST: u64 = 1 << 20;
/// What each thread goes through at least, where all do.
const EACH: u64 = 8 << 20;

/// A working set, and what it is in.
struct Case {
    under: String,
    pages: Pages,
    /// The length of an array in memory; of all a way uses together, in a cache.
    bytes: u64,
    in_cache: bool,
    cpus: Vec<u32>,
}

pub(super) fn study(bench: &mut Bench, sets: &Sets) -> Result<Study> {
    let mut figures = Vec::new();
    for case in cases(bench, sets) {
        let past = if case.in_cache { &[] } else { Pass::PAST };
        for &pass in Pass::PLAIN.iter().chain(past) {
            if bench.session.goes_on_to(&format!("memory: {} of {}", pass.name(), case.under)) {
                figures.extend(figure(bench, &case, pass)?);
            }
        }
    }
    let findings = findings(&figures);
    Ok(Study { name: "bandwidth".into(), method: METHOD.into(), figures, findings })
}

fn cases(bench: &Bench, sets: &Sets) -> Vec<Case> {
    let one = vec![bench.processors.quiet()];
    let most = sets.most;
    let within = |cache: &&Cache| cache.bytes / 2 < most;
    let of_cache = |cache: &Cache| Case {
        under: sets.working_set(cache.bytes / 2),
        pages: Pages::Base,
        bytes: cache.bytes / 2,
        in_cache: true,
        cpus: one.clone(),
    };
    let size = human::quantity(most as f64, "bytes");
    let of_memory = |pages: &Pages| Case {
        under: format!("{size}, {}", pages.name()),
        pages: *pages,
        bytes: most,
        in_cache: false,
        cpus: one.clone(),
    };
    let caches = sets.caches.iter().filter(within).map(of_cache);
    let memory = sets.pages.iter().filter(|pages| pages.hold(3 * most, &bench.root)).map(of_memory);
    let mut cases: Vec<Case> = caches.chain(memory).collect();
    let all = bench.processors.spread_out();
    if all.len() > 1 {
        let pages = sets.usual_pages();
        let each = (most / all.len() as u64).max(EACH.min(most));
        let under = format!("{} cpus, {} each, {}", all.len(), human::quantity(each as f64, "bytes"), pages.name());
        cases.push(Case { under, pages, bytes: each, in_cache: false, cpus: all });
    }
    cases
}

fn figure(bench: &Bench, case: &Case, pass: Pass) -> Result<Option<Figure>> {
    let bytes = if case.in_cache { case.bytes } else { case.bytes * pass.arrays() };
    let prepare = |_| {
        let region = || Region::map(case.bytes, case.pages, None);
        let regions = region().and_then(|a| Ok([a, region()?, region()?]));
        let regions = regions.map_err(|e| Error::new(format!("memory of {}: {e}", case.under)))?;
        let mut arrays = Arrays::new(regions);
        arrays.working_set(bytes, pass);
        Ok(move || {
            let mut done = 0;
            while done < LEAST {
                done += arrays.go_through(pass);
            }
            done
        })
    };
    let repeated = repeat(&case.cpus, bench.pace(Clock::Running), prepare)?;
    Ok(repeated.rate(pass.name(), &case.under, "bytes/s"))
}

/// What non-temporal stores bring, where all that can be used at once.
fn findings(figures: &[Figure]) -> Vec<String> {
    let Some(last) = figures.last().map(|figure| figure.under.as_str()) else { return Vec::new() };
    let of = |pass: Pass| figures.iter().find(|figure| figure.name == pass.name() && figure.under == last);
    let found = |pass: &Pass| {
        let (name, times) = (pass.plain().name(), times(of(*pass)?, of(pass.plain())?));
        Some(format!("Non-temporal stores make {name} {times} as fast ({last})."))
    };
    Pass::PAST.iter().filter_map(found).collect()
}
