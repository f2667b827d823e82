//! Blind spots of the sources: what they could not read, and why.

use crate::catalogue::{ReadOutcome, SourceReport};
use crate::diagnosis::BlindSpot;
use crate::window::Window;
use std::collections::BTreeMap;

/// Returns what the sources of a window could not show, according to their newest reports. Reports an absent source
/// only if its name begins with a prefix in `worth_having`, each with a remedy; the machine simply does not have what
/// the others read.
pub fn of_sources(window: &Window, worth_having: &[(&str, &str)]) -> Vec<BlindSpot> {
    let mut newest: BTreeMap<&str, &SourceReport> = BTreeMap::new();
    for report in window.snapshots().iter().flat_map(|s| &s.sources) {
        newest.insert(&report.source, report);
    }
    // Sources that fail for the same reason are one blind spot: without BPF there are many.
    let mut missed: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for report in newest.values() {
        if let Some(reason) = why_missed(report, worth_having) {
            missed.entry(reason).or_default().push(&report.tells);
        }
    }
    missed.into_iter().map(|((why, remedy), what)| BlindSpot { what: what.join("; "), why, remedy }).collect()
}

/// Returns why a source is a blind spot, and the remedy.
fn why_missed(report: &SourceReport, worth_having: &[(&str, &str)]) -> Option<(String, String)> {
    Some(match &report.outcome {
        ReadOutcome::Read => return None,
        ReadOutcome::Absent(why) => {
            let (_, remedy) = worth_having.iter().find(|(source, _)| report.source.starts_with(source))?;
            (why.clone(), (*remedy).to_owned())
        }
        ReadOutcome::NotPermitted { why, remedy } => (why.clone(), remedy.clone()),
        ReadOutcome::Failed(why) => (why.clone(), format!("read {} manually", report.source)),
        ReadOutcome::Partly { why, remedy } => (why.clone(), remedy.clone()),
        ReadOutcome::Hung(why) => (why.clone(), "look for a file system or driver that does not respond".to_owned()),
    })
}
