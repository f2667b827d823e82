//! Page of a host, in the same form as `whyslow serve` shows a recording.

use super::charts::{self, Minutes};
use crate::commands::host::{Entry, EntryKind, HostReport};
use crate::span::rfc3339;
use crate::{Failure, Fleet};
use whyslow_documents::chart::{self, PageData};
use whyslow_documents::diagnosis::{Confidence, Culprit, Diagnosis, Finding, Host, Origin, Subject, TimeSpan, Verdict};
use whyslow_documents::explanation::{ChangeEvent, Episode, Explanation, TimelineEvent};
use whyslow_model::human;
use whyslow_model::inventory::MachineChange;
use whyslow_series::ChartSpec;
use whyslow_serve::PageContent;

/// The requested part of the page.
pub struct HostPagePart {
    /// Requested charts.
    pub specs: Vec<&'static ChartSpec>,
    /// Whether the chart of lost time is requested.
    pub with_lost: bool,
    /// Approximate maximum number of intervals.
    pub intervals: usize,
    /// Requested content of the charts.
    pub content: PageContent,
}

/// Builds the page of a host, which may not have shipped any data.
///
/// # Errors
/// Fails if the store cannot be read or has no data from the host.
pub fn page(fleet: &Fleet, host: &str, part: HostPagePart) -> Result<PageData, Failure> {
    let span = fleet.span();
    let seconds = |ms: i64| ms as f64 / 1e3;
    let mut page = PageData {
        schema: chart::SCHEMA.to_owned(),
        title: format!("whyslow: {host}"),
        host: host.to_owned(),
        from: seconds(span.from_ms),
        to: seconds(span.to_ms),
        ..PageData::default()
    };
    if part.content == PageContent::Outline {
        page.charts.extend(part.with_lost.then(charts::outline_of_lost));
        page.charts.extend(part.specs.iter().filter(|spec| charts::can_be_drawn(spec)).map(|spec| spec.outline()));
        return Ok(page);
    }
    let minutes = Minutes::read(fleet, host)?;
    if part.content.has_charts() {
        page.charts.extend(part.with_lost.then(|| minutes.lost_chart()));
        page.charts.extend(charts::charts(fleet, host, &minutes, part.specs, part.intervals)?);
    }
    if part.content.has_answer() {
        page.explanation = Some(explain(fleet, &crate::commands::host::report(fleet, host, 0)?, &minutes));
    }
    Ok(page)
}

/// Converts the report of a host to an explanation.
fn explain(fleet: &Fleet, report: &HostReport, minutes: &Minutes) -> Explanation {
    let span = fleet.span();
    let mut explanation = Explanation {
        start: rfc3339(span.from_ms),
        end: rfc3339(span.to_ms),
        samples: minutes.samples,
        missed: minutes.missed,
        ..Explanation::for_recording(String::new())
    };
    for entry in &report.timeline {
        match &entry.kind {
            EntryKind::Episode { .. } => explanation.episodes.extend(episode(entry, report)),
            EntryKind::Change { kind, name, old, new } => {
                let what = change_in_words(entry.at_ms(), kind, name, old.as_deref(), new.as_deref());
                let (kind, name) = (kind.clone(), name.clone());
                let at = entry.at.clone();
                explanation.changes.push(ChangeEvent { at, kind, name, old: old.clone(), new: new.clone(), what });
            }
            EntryKind::Gap { goes_on } => {
                let long = human::quantity((entry.until_ms() - entry.at_ms()) as f64 / 1e3, "s");
                let what = if *goes_on {
                    format!("nothing shipped since, for {long}")
                } else {
                    format!("nothing shipped for {long}")
                };
                explanation.events.push(TimelineEvent { at: entry.at.clone(), what });
            }
        }
    }
    explanation
}

fn change_in_words(at_ms: i64, kind: &str, name: &str, old: Option<&str>, new: Option<&str>) -> String {
    let change = MachineChange {
        at: at_ms.saturating_mul(1_000_000),
        kind: kind.into(),
        name: name.into(),
        old: old.map(Into::into),
        new: new.map(Into::into),
    };
    change.in_words()
}

fn episode(entry: &Entry, report: &HostReport) -> Option<Episode> {
    let EntryKind::Episode { finding, subject, subject_kind, culprit, confidence, lost_s, worst } = &entry.kind else {
        return None;
    };
    let seconds = ((entry.until_ms() - entry.at_ms()) as f64 / 1e3).max(1.0);
    let culprit =
        culprit.iter().map(|name| Culprit { kind: "process".into(), name: name.clone(), ..Culprit::default() });
    let subject = if subject_kind == "host" { Subject::host() } else { Subject::new(subject_kind, subject) };
    let finding = Finding {
        id: finding.clone(),
        subject,
        culprits: culprit.collect(),
        impact: *worst,
        confidence: Confidence::named(confidence).unwrap_or_default(),
        ..Finding::default()
    };
    let window = TimeSpan {
        start: Some(entry.at.clone()),
        end: entry.until.clone(),
        ..TimeSpan::new(Origin::Recording, seconds, 0)
    };
    let key = finding.subject.key_of(&finding.id);
    let diagnosis =
        Diagnosis { host: machine(report), findings: vec![finding], ..Diagnosis::new(Verdict::Bottleneck, window) };
    Some(Episode {
        start: entry.at.clone(),
        end: entry.until.clone().unwrap_or_else(|| entry.at.clone()),
        seconds,
        impact: *worst,
        mean_impact: (lost_s / seconds).clamp(0.0, 1.0),
        key,
        overlaps: Vec::new(),
        before: Vec::new(),
        diagnosis,
        is_excerpt: false,
    })
}

/// Describes the machine from its inventory.
fn machine(report: &HostReport) -> Host {
    let property = |kind: &str, name: &str| {
        let is = |property: &&crate::commands::host::Property| property.kind == kind && property.name == name;
        report.properties.iter().find(is).map(|property| property.value.clone())
    };
    Host {
        name: Some(report.host.clone()),
        kernel: property("kernel", "release"),
        cpus: property("machine", "cpus").and_then(|cpus| cpus.parse().ok()),
        memory_bytes: None,
        virtualization: property("machine", "virtualisation"),
    }
}
