//! Merges the diagnoses of captures that report the same data twice: before and after, or two machines.

use crate::judge::{is_certain, weight};
use crate::lowered_clock;
use crate::rulebook::RuleBook;
use crate::virtual_machines::{self, VirtualMachines};
use crate::{shared_device, stands_out, virtual_disks};
use std::collections::BTreeSet;
use whyslow_documents::diagnosis::{Confidence, Diagnosis, Finding, Host, NextCapture, Verdict};

/// Maximum length of a chain of causes and effects.
const MOST_LEVELS: usize = 8;

/// Merges diagnoses into one, in which each finding and each resource that is ruled out names its capture, and each finding its
/// host if there are several. Returns `None` if there are none. `machines` are the virtual ones that the captures show from both
/// sides ([`virtual_machines`](crate::virtual_machines())).
pub fn merge_diagnoses(
    parts: Vec<(String, Diagnosis)>,
    machines: VirtualMachines,
    book: &RuleBook,
) -> Option<Diagnosis> {
    merge(parts, machines, Labels::OfSeveral, book)
}

/// Like [`merge_diagnoses`], for recordings of several machines: findings name their machine even if only one has any.
pub fn merge_machines(
    parts: Vec<(String, Diagnosis)>,
    machines: VirtualMachines,
    book: &RuleBook,
) -> Option<Diagnosis> {
    merge(parts, machines, Labels::Always, book)
}

/// When findings name their capture.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Labels {
    Always,
    OfSeveral,
}

fn merge(
    parts: Vec<(String, Diagnosis)>,
    mut machines: VirtualMachines,
    labels: Labels,
    book: &RuleBook,
) -> Option<Diagnosis> {
    let (speaking, silent): (Vec<_>, Vec<_>) = parts.into_iter().partition(|(_, part)| says_anything(part));
    // Captures that only hold settings have no part in the diagnosis of others.
    let (parts, silent) = if speaking.is_empty() { (silent, speaking) } else { (speaking, silent) };
    let alone = parts.len() == 1 && labels == Labels::OfSeveral;
    let has_hosts = parts.iter().any(|(_, a)| parts.iter().any(|(_, b)| a.host.is_another(&b.host)));
    let captures: Vec<String> = parts.iter().map(|(capture, _)| capture.clone()).collect();
    let label = |(capture, part): (String, Diagnosis)| if alone { part } else { labelled(part, &capture, has_hosts) };
    let parts: Vec<Diagnosis> = parts.into_iter().map(label).collect();
    let next: Vec<_> = captures.into_iter().zip(parts.iter().map(|part| part.next_capture.clone())).collect();
    let shared = shared_device::findings(&parts, book);
    let lowered = lowered_clock::findings(&parts, book);
    let mut all = parts.clone().into_iter();
    let mut merged = all.next()?;
    for part in all {
        merged.host = common_host(&merged.host, &part.host);
        merged.verdict = worse(merged.verdict, part.verdict);
        if part.window.seconds >= merged.window.seconds {
            (merged.window.seconds, merged.window.is_assumed) = (part.window.seconds, part.window.is_assumed);
        }
        merged.window.samples += part.window.samples;
        merged.findings.extend(part.findings);
        merged.ruled_out.extend(part.ruled_out);
        merged.not_cleared.extend(part.not_cleared);
        merged.figures.extend(part.figures);
        merged.stands_out.extend(part.stands_out);
        merged.main_figures.extend(part.main_figures);
        merged.blind_spots.retain(|spot| part.blind_spots.contains(spot) || spot.what.contains(": "));
        merged.blind_spots.extend(part.blind_spots.into_iter().filter(|spot| spot.what.contains(": ")));
    }
    let notes = silent.into_iter().flat_map(|(_, part)| part.blind_spots).filter(|spot| spot.what.contains(": "));
    merged.blind_spots.extend(notes);
    for cause in &shared {
        let effects = merged.findings.iter_mut().filter(|effect| cause.explains.contains(&effect.key()));
        effects.for_each(|effect| effect.explained_by = Some(cause.key()));
    }
    merged.findings.extend(shared);
    // Suspicions of one capture alone.
    merged
        .findings
        .retain(|finding| !lowered.iter().any(|new| new.key() == finding.key() && new.subject == finding.subject));
    if lowered.iter().any(Finding::is_felt) {
        merged.verdict = Verdict::Bottleneck;
    }
    merged.findings.extend(lowered);
    if merged.verdict == Verdict::Healthy && parts.iter().any(is_in_doubt) {
        merged.verdict = Verdict::Undetermined;
    }
    let limits = virtual_machines::limits(&machines, book);
    if limits.iter().any(Finding::is_felt) {
        merged.verdict = Verdict::Bottleneck;
    }
    merged.findings.extend(limits);
    // Of several machines, or times, each has its own.
    let mut ledgers = parts.iter().filter_map(|part| part.memory.as_ref());
    merged.memory = ledgers.next().filter(|_| ledgers.next().is_none()).cloned();
    let mut ledgers = parts.iter().map(|part| &part.ledgers).filter(|ledgers| !ledgers.is_empty());
    merged.ledgers = ledgers.next().filter(|_| ledgers.next().is_none()).cloned().unwrap_or_default();
    merged.stands_out = stands_out::furthest(std::mem::take(&mut merged.stands_out));
    virtual_disks::add_figures(&mut machines.disks, &merged.figures);
    virtual_disks::relate(&machines.disks, &parts, &mut merged.findings, book);
    virtual_machines::relate(&machines, &mut merged.findings, book);
    merged.virtual_disks = machines.disks;
    merged.findings = by_rank(merged.findings);
    merged.next_capture = next_capture(next, &merged);
    Some(merged)
}

/// Makes findings the effects of the one with this key, and returns that one.
pub(crate) fn explain<'f>(
    merged: &'f mut [Finding],
    cause: &str,
    is_effect: impl Fn(&Finding) -> bool,
) -> Option<&'f mut Finding> {
    let mut effects = Vec::new();
    for effect in merged.iter_mut().filter(|finding| is_effect(finding)) {
        effect.explained_by = Some(cause.to_owned());
        effects.push(effect.key());
    }
    let cause = merged.iter_mut().find(|finding| finding.key() == cause)?;
    cause.explains.extend(effects);
    Some(cause)
}

/// Sorts causes first, by their weight together with their effects, as in each capture by itself; then effects.
pub(crate) fn by_rank(findings: Vec<Finding>) -> Vec<Finding> {
    let ranks: Vec<(bool, f64)> = findings.iter().map(|finding| rank(finding, &findings, MOST_LEVELS)).collect();
    let mut ranked: Vec<((bool, f64), Finding)> = ranks.into_iter().zip(findings).collect();
    ranked.sort_by(|((a_certain, a_weight), a), ((b_certain, b_weight), b)| {
        let effect = |f: &Finding| f.explained_by.is_some();
        let order = || b_certain.cmp(a_certain).then(b_weight.total_cmp(a_weight));
        effect(a).cmp(&effect(b)).then_with(order)
    });
    ranked.into_iter().map(|(_, finding)| finding).collect()
}

/// Returns whether a finding or one of its effects is certain, and the largest weight among them.
fn rank(finding: &Finding, all: &[Finding], levels: usize) -> (bool, f64) {
    let own = (is_certain(finding), weight(finding));
    if levels == 0 || finding.explains.is_empty() {
        return own;
    }
    let key = finding.key();
    let effects = all.iter().filter(|other| other.explained_by.as_ref() == Some(&key));
    let of_effects = effects.map(|effect| rank(effect, all, levels - 1));
    of_effects.fold(own, |(certain, heaviest), (other, weight)| (certain || other, heaviest.max(weight)))
}

/// Returns the next capture for the capture with the first finding; without any finding, the first one that there is.
fn next_capture(of_captures: Vec<(String, Option<NextCapture>)>, merged: &Diagnosis) -> Option<NextCapture> {
    let first = merged.findings.first();
    let is_certain = first.is_some_and(|first| first.confidence == Confidence::High);
    if merged.verdict == Verdict::Healthy || (merged.verdict == Verdict::Bottleneck && is_certain) {
        return None;
    }
    let capture = first.and_then(|first| first.subject.capture.as_ref());
    let mut of_captures = of_captures.into_iter();
    match capture {
        Some(capture) => of_captures.find(|(own, _)| own == capture)?.1,
        None => of_captures.find_map(|(_, next)| next),
    }
}

/// Returns true if anything was found, cleared or computed.
fn says_anything(part: &Diagnosis) -> bool {
    !(part.findings.is_empty() && part.ruled_out.is_empty() && part.not_cleared.is_empty() && part.figures.is_empty())
}

/// Returns the host of both captures; for two hosts, their names.
fn common_host(a: &Host, b: &Host) -> Host {
    let names: BTreeSet<&str> = [&a.name, &b.name].into_iter().flatten().flat_map(|name| name.split(", ")).collect();
    let name = (!names.is_empty()).then(|| names.into_iter().collect::<Vec<_>>().join(", "));
    if a.name == b.name { a.clone() } else { Host { name, ..Host::default() } }
}

fn labelled(mut part: Diagnosis, capture: &str, has_hosts: bool) -> Diagnosis {
    let key = |key: &str| format!("{key} in {capture}");
    let host = part.host.name.clone().filter(|_| has_hosts);
    for finding in &mut part.findings {
        finding.host.clone_from(&host);
        finding.subject.capture = Some(capture.to_owned());
        finding.explains.iter_mut().for_each(|k| *k = key(k));
        finding.explained_by = finding.explained_by.as_deref().map(key);
    }
    if let Some(next) = &mut part.next_capture {
        next.host = host;
    }
    let figures = part.figures.iter_mut().chain(&mut part.main_figures).map(|figures| &mut figures.subject);
    for subject in figures.chain(part.stands_out.iter_mut().map(|deviation| &mut deviation.subject)) {
        subject.capture = Some(capture.to_owned());
    }
    let because = part.ruled_out.iter_mut().map(|entry| &mut entry.because);
    for because in because.chain(part.not_cleared.iter_mut().map(|entry| &mut entry.because)) {
        because.push_str(&format!(" ({capture})"));
    }
    part
}

/// Returns true if a capture shows something without a known cause.
fn is_in_doubt(part: &Diagnosis) -> bool {
    part.verdict == Verdict::Undetermined && !part.not_cleared.is_empty()
}

/// Returns the worse verdict: a bottleneck in one capture is one of the whole; without any, one healthy capture is enough.
fn worse(a: Verdict, b: Verdict) -> Verdict {
    match (a, b) {
        (Verdict::Bottleneck, _) | (_, Verdict::Bottleneck) => Verdict::Bottleneck,
        (Verdict::Healthy, _) | (_, Verdict::Healthy) => Verdict::Healthy,
        _ => Verdict::Undetermined,
    }
}
