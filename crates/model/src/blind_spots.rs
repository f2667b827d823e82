//! What sources could not show.

use crate::catalogue::{ReadOutcome, SourceReport};
use crate::diagnosis::BlindSpot;
use crate::window::Window;
use std::collections::BTreeMap;

/// What the sources of a window could not show, by their newest reports. `worth_having` are those whose absence is reported too, by the
/// beginning of their names, each with a remedy; what others lack, this machine does not have.
pub fn of_sources(window: &Window, worth_having: &[(&str, &str)]) -> Vec<BlindSpot> {
    let mut newest: BTreeMap<&str, &SourceReport> = BTreeMap::new();
    for report in window.snapshots().iter().flat_map(|s| &s.sources) {
        newest.insert(&report.source, report);
    }
    // What is missed for one reason is one blind spot: without BPF there are many.
    let mut missed: BTreeMap<(String, String), Vec<&str>> = BTreeMap::new();
    for report in newest.values() {
        if let Some(reason) = why_missed(report, worth_having) {
            missed.entry(reason).or_default().push(&report.tells);
        }
    }
    missed.into_iter().map(|((why, remedy), what)| BlindSpot { what: what.join("; "), why, remedy }).collect()
}

/// Why a source did not show what it could, and the remedy.
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
