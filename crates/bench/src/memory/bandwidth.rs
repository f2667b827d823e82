//! Memory bandwidth: by working set and page size, and of all CPUs together.

use super::mapping::{Mapping, PageKind};
use super::stream_kernels::{StreamArrays, StreamKernel};
use super::{CpuCache, WorkingSets};
use crate::error::{Error, Result};
use crate::study::StudyContext;
use crate::study::{TimeBasis, repeat, times};
use whyslow_model::bench::{Figure, Study};
use whyslow_model::human;

const METHOD: &str = "One thread, or one on each processor, goes through arrays of 64-bit numbers for a while: sums one up (read), \
fills one (write), one into another (copy), one plus a multiple of another into a third (triad). Counted is what STREAM counts: \
eight bytes for each number read and each written; that a usual store reads its line first is not. Non-temporal stores do not. \
In memory each array is as long as the working set says, in a cache all together are.";

/// Bytes between two clock reads, so that each unit of work takes some microseconds.
const LEAST: u64 = 1 << 20;
/// Minimum working set per thread when all CPUs run.
const EACH: u64 = 8 << 20;

struct Case {
    under: String,
    pages: PageKind,
    /// Length of each array in memory; of all arrays together in a cache.
    bytes: u64,
    in_cache: bool,
    cpus: Vec<u32>,
}

pub(super) fn study(context: &mut StudyContext, sets: &WorkingSets) -> Result<Study> {
    let mut figures = Vec::new();
    for case in cases(context, sets) {
        let past = if case.in_cache { &[] } else { StreamKernel::PAST };
        for &pass in StreamKernel::PLAIN.iter().chain(past) {
            if context.session.proceed_to(&format!("memory: {} of {}", pass.name(), case.under)) {
                figures.extend(figure(context, &case, pass)?);
            }
        }
    }
    let findings = findings(&figures);
    Ok(Study { name: "bandwidth".into(), method: METHOD.into(), figures, findings })
}

fn cases(context: &StudyContext, sets: &WorkingSets) -> Vec<Case> {
    let one = vec![context.topology.quiet_cpu()];
    let most = sets.most;
    let within = |cache: &&CpuCache| cache.bytes / 2 < most;
    let of_cache = |cache: &CpuCache| Case {
        under: sets.working_set(cache.bytes / 2),
        pages: PageKind::Base,
        bytes: cache.bytes / 2,
        in_cache: true,
        cpus: one.clone(),
    };
    let size = human::quantity(most as f64, "bytes");
    let of_memory = |pages: &PageKind| Case {
        under: format!("{size}, {}", pages.name()),
        pages: *pages,
        bytes: most,
        in_cache: false,
        cpus: one.clone(),
    };
    let caches = sets.caches.iter().filter(within).map(of_cache);
    let memory = sets.pages.iter().filter(|pages| pages.fit(3 * most, &context.root)).map(of_memory);
    let mut cases: Vec<Case> = caches.chain(memory).collect();
    let all = context.topology.spread_over_cores();
    if all.len() > 1 {
        let pages = sets.usual_pages();
        let each = (most / all.len() as u64).max(EACH.min(most));
        let under = format!("{} cpus, {} each, {}", all.len(), human::quantity(each as f64, "bytes"), pages.name());
        cases.push(Case { under, pages, bytes: each, in_cache: false, cpus: all });
    }
    cases
}

fn figure(context: &StudyContext, case: &Case, pass: StreamKernel) -> Result<Option<Figure>> {
    let bytes = if case.in_cache { case.bytes } else { case.bytes * pass.arrays() };
    let prepare = |_| {
        let region = || Mapping::new(case.bytes, case.pages, None);
        let regions = region().and_then(|a| Ok([a, region()?, region()?]));
        let regions = regions.map_err(|e| Error::new(format!("memory of {}: {e}", case.under)))?;
        let mut arrays = StreamArrays::new(regions);
        arrays.working_set(bytes, pass);
        Ok(move || {
            let mut done = 0;
            while done < LEAST {
                done += arrays.go_through(pass);
            }
            done
        })
    };
    let repeated = repeat(&case.cpus, context.options(TimeBasis::OnCpu), prepare)?;
    Ok(repeated.rate(pass.name(), &case.under, "bytes/s"))
}

/// The effect of non-temporal stores, with all CPUs.
fn findings(figures: &[Figure]) -> Vec<String> {
    let Some(last) = figures.last().map(|figure| figure.under.as_str()) else { return Vec::new() };
    let of = |pass: StreamKernel| figures.iter().find(|figure| figure.name == pass.name() && figure.under == last);
    let found = |pass: &StreamKernel| {
        let (name, times) = (pass.plain().name(), times(of(*pass)?, of(pass.plain())?));
        Some(format!("Non-temporal stores make {name} {times} as fast ({last})."))
    };
    StreamKernel::PAST.iter().filter_map(found).collect()
}
