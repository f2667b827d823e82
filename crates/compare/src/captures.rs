//! Captures as summaries: what one run of a tool shows, for the comparison with another run.

use crate::summary::Summary;
use std::collections::BTreeMap;
use whyslow_model::baseline::{Baseline, BaselineKind, BaselineSeries, Better, Inventory};
use whyslow_model::diagnosis::{Evidence, Reading, Subject, SubjectFigures};
use whyslow_model::human;

/// From this share of a CPU on, the CPU is the limit.
const CPU_BOUND: f64 = 0.95;
/// The end of the name of a measurement in which it was.
pub(crate) const BY_CPU: &str = ", limited by a CPU";

/// Summarizes a capture: `intervals` are the known signals of each interval between its reports, with its length in seconds; `whole`
/// are those of the whole capture, which also has results that belong to no interval.
pub fn of_capture(intervals: &[(f64, Vec<SubjectFigures>)], whole: &[SubjectFigures]) -> Baseline {
    let summed_up = |intervals: &[(f64, &[SubjectFigures])]| {
        let mut summary = Summary::default();
        intervals.iter().for_each(|(seconds, figures)| summary.add(*seconds, figures));
        (summary.seconds(), summary.finish())
    };
    let intervals: Vec<(f64, &[SubjectFigures])> = intervals.iter().map(|(s, figures)| (*s, &**figures)).collect();
    let (seconds, mut series) = summed_up(&intervals);
    // Two tools that report at different times have no interval in common.
    let (_, all) = summed_up(&[(seconds, whole)]);
    for one in all {
        if !series.iter().any(|known| (&known.metric, &known.subject) == (&one.metric, &one.subject)) {
            series.push(BaselineSeries { interval: None, ..one });
        }
    }
    series.extend(measured(whole));
    Baseline { seconds, ..Baseline::new(BaselineKind::Captures, Inventory::new(), series) }
}

/// What tools measured themselves. The same work again is a further sample of the same series.
fn measured(figures: &[SubjectFigures]) -> Vec<BaselineSeries> {
    let mut series: BTreeMap<String, BaselineSeries> = BTreeMap::new();
    let works: Vec<String> = figures.iter().filter_map(work).collect();
    for figures in figures {
        let Some(work) = work(figures) else { continue };
        let limit = if figures.number("timed.cpu_share") >= Some(CPU_BOUND) { BY_CPU } else { "" };
        // With several sizes, each is a work of its own.
        let block = figures.number("timed.block").filter(|_| works.iter().filter(|w| **w == work).count() > 1);
        let block = block.map_or_else(String::new, |block| format!(" by {}", human::quantity(block, "bytes")));
        // Networks are measured in bits.
        let rate = if figures.subject.kind == "connection" { "timed.bits" } else { "timed.rate" };
        let measured = figures.evidence(rate).or_else(|| figures.evidence("timed.operations"));
        let Some(Evidence { value: Reading::Number(value), unit, .. }) = measured else { continue };
        let name = format!("{work}{block}{limit}");
        let of_work = || BaselineSeries::of_repeats(&name, Subject::host(), unit, Better::Higher, Vec::new());
        series.entry(name.clone()).or_insert_with(of_work).samples.push(*value);
    }
    series.into_values().collect()
}

/// The tool, and what it did to what.
fn work(figures: &SubjectFigures) -> Option<String> {
    let text = |metric| match &figures.evidence(metric)?.value {
        Reading::Text(text) => Some(text.as_str()),
        Reading::Number(_) => None,
    };
    let tool = text("timed.tool")?;
    Some(text("timed.peer").map_or_else(|| tool.to_owned(), |what| format!("{tool}: {what}")))
}
