//! The cost of page faults.

use super::WorkingSets;
use crate::memory_region::{MemoryRegion, PageKind, base_page, huge_page};
use crate::study::StudyContext;
use crate::study::{TimeBasis, WorkDone, repeat};
use crate::{Error, Result};
use nix::sys::resource::{UsageWho, getrusage};
use std::time::Instant;
use whyslow_documents::bench::{Measurement, Study};
use whyslow_model::human;

const METHOD: &str =
    "Time per fault when writing to new memory; populated: all pages in one call (MADV_POPULATE_WRITE), time per page.";

/// New memory per unit of work.
const BYTES: u64 = 16 << 20;

pub(super) fn study(context: &mut StudyContext, sets: &WorkingSets) -> Result<Study> {
    let small = format!("{} page", size(base_page()));
    let large = format!("{} page (THP)", size(huge_page()));
    let mut figures = Vec::new();
    if context.session.proceed_to("page faults") {
        figures.extend(touched(context, PageKind::Base, base_page(), &small)?);
    }
    if sets.pages.contains(&PageKind::Transparent) && context.session.proceed_to("page faults of huge pages") {
        figures.extend(touched(context, PageKind::Transparent, huge_page(), &large)?);
    }
    if context.session.proceed_to("populated memory") {
        match MemoryRegion::new(BYTES, PageKind::Base, None).and_then(|region| region.populate()) {
            Ok(()) => figures.extend(populated(context, &small)?),
            Err(e) => {
                context.session.caveats.push(format!("populating memory is not measured: MADV_POPULATE_WRITE: {e}"))
            }
        }
    }
    let findings = findings(&figures);
    Ok(Study { name: "page faults".into(), method: METHOD.into(), figures, findings, ..Study::default() })
}

fn size(bytes: usize) -> String {
    human::quantity(bytes as f64, "bytes")
}

fn new_memory(pages: PageKind) -> Result<MemoryRegion> {
    MemoryRegion::new(BYTES, pages, None).map_err(|e| Error::new(format!("new memory of {}: {e}", pages.name())))
}

/// Measures one fault per page.
fn touched(context: &StudyContext, pages: PageKind, page: usize, name: &str) -> Result<Option<Measurement>> {
    let time = |_| {
        new_memory(pages)?;
        Ok(move || {
            with_new_memory(pages, |region| {
                let before = minor_faults();
                region.touch(page);
                minor_faults() - before
            })
        })
    };
    Ok(repeat(&[context.topology.quiet_cpu()], context.options(TimeBasis::OnCpu), time)?.time(name, "on first touch"))
}

/// Measures faulting in all pages in one call.
fn populated(context: &StudyContext, name: &str) -> Result<Option<Measurement>> {
    let time = |_| {
        Ok(|| {
            with_new_memory(PageKind::Base, |region| {
                // Worked before; if memory has run out since, count nothing.
                region.populate().map_or(0, |()| (region.bytes() / base_page()) as u64)
            })
        })
    };
    Ok(repeat(&[context.topology.quiet_cpu()], context.options(TimeBasis::OnCpu), time)?.time(name, "populated"))
}

/// Runs `work` on new memory; mapping and unmapping count as overhead.
fn with_new_memory(pages: PageKind, work: impl FnOnce(&mut MemoryRegion) -> u64) -> WorkDone {
    let began = Instant::now();
    // Worked before; if memory has run out since, count nothing.
    let Ok(mut region) = new_memory(pages) else { return WorkDone { amount: 0, overhead: began.elapsed() } };
    let mapped = Instant::now();
    let amount = work(&mut region);
    let worked = mapped.elapsed();
    drop(region);
    WorkDone { amount, overhead: began.elapsed().saturating_sub(worked) }
}

fn minor_faults() -> u64 {
    // Fails only for an invalid `who`.
    getrusage(UsageWho::RUSAGE_THREAD).map_or(0, |used| u64::try_from(used.minor_page_faults()).unwrap_or(0))
}

/// Compares the cost per 4 KiB with small and with huge pages.
fn findings(figures: &[Measurement]) -> Vec<String> {
    let [small, large, ..] = figures else { return Vec::new() };
    let within = (huge_page() / base_page()) as f64;
    if !large.name.contains("THP") {
        return Vec::new();
    }
    let each = human::quantity(large.value / within, "s");
    vec![format!(
        "Page faults with THP: {each} per {}, {:.2} times that of small pages.",
        size(base_page()),
        large.value / within / small.value
    )]
}
