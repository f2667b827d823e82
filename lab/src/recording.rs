//! Records a fault and lets whyslow explain the recording: it must name the same first cause, or say what it could not see.

use crate::error::{Context, Result};
use crate::expect::Expect;
use crate::judge;
use crate::observer::Observer;
use crate::testbed::Testbed;
use crate::trial::Trial;
use std::time::Duration;
use whyslow_model::diagnosis::{Diagnosis, Finding, Origin, TimeSpan, Verdict};
use whyslow_model::explanation::Explanation;

/// How long `whyslow record` may take beyond its time, and `whyslow explain`.
const GRACE: Duration = Duration::from_secs(60);

/// What whyslow explains of a recording of the running trial, and what is wrong with it. `live` is the observation just before: if it
/// found nothing noticeable, the recording need not have an episode.
pub fn judged(
    observer: &Observer,
    bed: &Testbed,
    trial: &Trial,
    expect: &Expect,
    live: &Diagnosis,
) -> Result<(Diagnosis, Vec<String>)> {
    let folder = bed.path("recording");
    let folder = folder.to_string_lossy();
    let time = format!("{}s", observer.seconds);
    let mut record = vec!["record", "--dir", &*folder, "--for", &time];
    record.extend((!observer.bpf).then_some("--no-bpf"));
    observer.run(bed, &record, None, Duration::from_secs(observer.seconds) + GRACE)?;
    let text = observer.run(bed, &["explain", "--json", &*folder], None, GRACE)?;
    let explanation: Explanation = serde_json::from_slice(&text).context("the output of whyslow explain")?;
    let answer = answer(&explanation);
    let is_unnoticed = answer.findings.is_empty() && !live.findings.iter().any(Finding::is_felt);
    let wrong = if is_unnoticed { Vec::new() } else { judge::mismatches_of_less(&answer, trial, expect) };
    let wrong = wrong.into_iter().map(|why| format!("the recording: {why}")).collect();
    Ok((answer, wrong))
}

/// The causes of all episodes, as a diagnosis: the one that cost most is the first.
fn answer(explanation: &Explanation) -> Diagnosis {
    let cause = |key: &str, diagnosis: &Diagnosis| diagnosis.findings.iter().find(|f| f.key() == key).cloned();
    let mut findings: Vec<Finding> =
        explanation.episodes.iter().filter_map(|episode| cause(&episode.key, &episode.diagnosis)).collect();
    findings.sort_by(|a, b| b.impact.total_cmp(&a.impact));
    let verdict = if findings.is_empty() { Verdict::Healthy } else { Verdict::Bottleneck };
    let blind_spots = explanation.episodes.first().map_or(Vec::new(), |first| first.diagnosis.blind_spots.clone());
    let samples = explanation.samples as usize;
    Diagnosis {
        findings,
        blind_spots,
        ..Diagnosis::new(verdict, TimeSpan::of(Origin::Recording, samples as f64, samples))
    }
}
