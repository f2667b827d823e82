//! Blind spots of the sources: what they could not read, and why.

use crate::diagnosis::BlindSpot;
use std::collections::BTreeMap;
use whyslow_model::catalogue::{ReadOutcome, SourceReport};
use whyslow_model::window::Window;

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

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_model::snapshot::Snapshot;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_window_that_slides_keeps_what_sources_that_are_read_rarely_could_not_show() {
        let report = |source: &'static str, outcome: ReadOutcome, asked: bool| SourceReport {
            source: source.into(),
            tells: source.into(),
            outcome,
            asked,
            ..SourceReport::default()
        };
        let refused = || ReadOutcome::NotPermitted { why: "not root".into(), remedy: "run as root".into() };
        let at = |second: u64| {
            let mut s = Snapshot { wall_ns: (second * SECOND) as i64, boot_ns: second * SECOND, ..Snapshot::default() };
            s.sources.push(report("often", ReadOutcome::Read, false));
            if second == 2 {
                s.sources.push(report("rarely", refused(), false));
                s.sources.push(report("asked", refused(), true));
            }
            s
        };
        let blind = |w: &Window| {
            let spots = of_sources(w, &[]).into_iter();
            spots.map(|spot| spot.what).collect::<Vec<_>>()
        };
        let mut w = Window::new((1..=4).map(at).collect());
        assert_eq!(blind(&w), ["asked; rarely"]);
        for second in 5..=77 {
            w.push(at(second));
            w.keep_last(3.0);
        }
        assert_eq!(blind(&w), ["rarely"]);
        assert!(w.snapshots().iter().all(|s| s.sources.len() <= 2), "one report of each");
        w.push(at(78));
        w.keep_last(3.0);
        assert_eq!(blind(&w), [""; 0], "valid for 75 s");
        // Read again, successfully.
        let mut w = Window::new(vec![at(2), at(3)]);
        let mut well = at(9);
        well.sources.push(report("rarely", ReadOutcome::Read, false));
        w.push(well);
        w.keep_last(3.0);
        assert_eq!(blind(&w), [""; 0]);
    }
}
