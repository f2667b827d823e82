//! Memory bandwidth by working set and page size, and of all CPUs together.

use super::stream_kernels::{StreamArrays, StreamKernel};
use super::{CpuCache, WorkingSets};
use crate::memory_region::{MemoryRegion, PageKind};
use crate::study::StudyContext;
use crate::study::{TimeBasis, repeat, times};
use crate::{Error, Result};
use whyslow_documents::bench::{Measurement, Study};
use whyslow_model::human;

const METHOD: &str = "STREAM counting: 8 bytes per element read or written; write-allocate traffic not counted, and avoided by non-temporal stores.";

/// Minimum bytes between two clock reads, so that each unit of work takes some microseconds.
const LEAST: u64 = 1 << 20;
/// Minimum working set per thread when all CPUs run.
const EACH: u64 = 8 << 20;

struct BandwidthCase {
    under: String,
    pages: PageKind,
    /// Length of each array in memory; total length of all arrays in a cache.
    bytes: u64,
    in_cache: bool,
    cpus: Vec<u32>,
}

pub(super) fn study(context: &mut StudyContext, sets: &WorkingSets) -> Result<Study> {
    let mut figures = Vec::new();
    for case in cases(context, sets) {
        let non_temporal = if case.in_cache { &[] } else { StreamKernel::NON_TEMPORAL };
        for &kernel in StreamKernel::PLAIN.iter().chain(non_temporal) {
            if context.session.proceed_to(&format!("memory: {} of {}", kernel.name(), case.under)) {
                figures.extend(figure(context, &case, kernel)?);
            }
        }
    }
    let findings = findings(&figures);
    Ok(Study { name: "bandwidth".into(), method: METHOD.into(), figures, findings, ..Study::default() })
}

fn cases(context: &StudyContext, sets: &WorkingSets) -> Vec<BandwidthCase> {
    let one = vec![context.topology.quiet_cpu()];
    let most = sets.most;
    let within = |cache: &&CpuCache| cache.bytes / 2 < most;
    let of_cache = |cache: &CpuCache| BandwidthCase {
        under: sets.working_set(cache.bytes / 2),
        pages: PageKind::Base,
        bytes: cache.bytes / 2,
        in_cache: true,
        cpus: one.clone(),
    };
    let size = human::quantity(most as f64, "bytes");
    let of_memory = |pages: &PageKind| BandwidthCase {
        under: format!("{size}, {}", pages.name()),
        pages: *pages,
        bytes: most,
        in_cache: false,
        cpus: one.clone(),
    };
    let caches = sets.caches.iter().filter(within).map(of_cache);
    let memory = sets.pages.iter().filter(|pages| pages.fit(3 * most, &context.root)).map(of_memory);
    let mut cases: Vec<BandwidthCase> = caches.chain(memory).collect();
    let all = context.topology.spread_over_cores();
    if all.len() > 1 {
        let pages = sets.usual_pages();
        let each = (most / all.len() as u64).max(EACH.min(most));
        let under = format!("{} cpus, {} each, {}", all.len(), human::quantity(each as f64, "bytes"), pages.name());
        cases.push(BandwidthCase { under, pages, bytes: each, in_cache: false, cpus: all });
    }
    cases
}

fn figure(context: &StudyContext, case: &BandwidthCase, kernel: StreamKernel) -> Result<Option<Measurement>> {
    let bytes = if case.in_cache { case.bytes } else { case.bytes * kernel.arrays() };
    let prepare = |_| {
        let region = || MemoryRegion::new(case.bytes, case.pages, None);
        let regions = region().and_then(|a| Ok([a, region()?, region()?]));
        let regions = regions.map_err(|e| Error::new(format!("memory of {}: {e}", case.under)))?;
        let mut arrays = StreamArrays::new(regions);
        arrays.working_set(bytes, kernel);
        Ok(move || {
            let mut done = 0;
            while done < LEAST {
                done += arrays.run(kernel);
            }
            done
        })
    };
    let repeated = repeat(&case.cpus, context.options(TimeBasis::OnCpu), prepare)?;
    Ok(repeated.rate(kernel.name(), &case.under, "bytes/s"))
}

/// Describes the memory bandwidth, and the effect of non-temporal stores, in the last case: with all CPUs.
fn findings(figures: &[Measurement]) -> Vec<String> {
    let Some(last) = figures.last().map(|figure| figure.under.as_str()) else { return Vec::new() };
    let of = |kernel: StreamKernel| figures.iter().find(|f| f.name == kernel.name() && f.under == last);
    let value =
        |kernel: &StreamKernel| Some(format!("{} {}", kernel.name(), human::quantity(of(*kernel)?.value, "bytes/s")));
    let gain =
        |kernel: &StreamKernel| Some(format!("{} {}", kernel.plain().name(), times(of(*kernel)?, of(kernel.plain())?)));
    let join = |parts: Vec<String>| (!parts.is_empty()).then(|| parts.join(", "));
    let memory = join(StreamKernel::PLAIN.iter().filter_map(value).collect());
    let gains = join(StreamKernel::NON_TEMPORAL.iter().filter_map(gain).collect());
    let memory = memory.map(|values| format!("Memory bandwidth ({last}): {values}."));
    let gains = gains.map(|gains| format!("Speed-up by non-temporal stores: {gains}."));
    [memory, gains].into_iter().flatten().collect()
}
