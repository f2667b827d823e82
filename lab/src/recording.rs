//! Records a fault and lets whyslow explain the recording: it must name the same first cause, or report what it could
//! not see.

use crate::error::{Context, Error, Result};
use crate::expect::Expect;
use crate::judge;
use crate::observer::Observer;
use crate::testbed::Testbed;
use crate::trial::Trial;
use jiff::Timestamp;
use std::time::Duration;
use whyslow_documents::diagnosis::{Confidence, Diagnosis, Finding, Origin, TimeSpan, Verdict};
use whyslow_documents::explanation::Explanation;

/// Time allowed for `whyslow record` beyond its duration, and for `whyslow explain`.
const GRACE: Duration = Duration::from_secs(60);
/// Rounding tolerance of shares.
const ROUNDING: f64 = 0.01;
/// Minimum impact at which a cause in half of a recording cannot be averaged away in all of it.
const NOTICEABLE: f64 = 0.3;

/// Returns whyslow's explanation of a recording of the running trial, and the mistakes in it. `live` is the observation
/// just before: if it found nothing noticeable, the recording need not have an episode.
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
    let explained = |part: &[&str]| -> Result<Explanation> {
        let text = observer.run(bed, &[&["explain", "--json", &*folder], part].concat(), None, GRACE)?;
        serde_json::from_slice(&text).context("the output of whyslow explain")
    };
    let explanation = explained(&[])?;
    let half = explained(&["--from", &middle(&explanation)?])?;
    let answer = answer(&explanation);
    let is_unnoticed = answer.findings.is_empty() && !live.findings.iter().any(Finding::is_felt);
    let mut wrong = if is_unnoticed { Vec::new() } else { judge::mismatches_of_less(&answer, trial, expect) };
    wrong.extend(shares_beyond_the_whole(&explanation));
    wrong.extend(lost_in_the_whole(&half, &explanation));
    let wrong = wrong.into_iter().map(|why| format!("the recording: {why}")).collect();
    Ok((answer, wrong))
}

/// Returns the time halfway through the recording.
fn middle(explanation: &Explanation) -> Result<String> {
    let time = |text: &str| text.parse::<Timestamp>().map_err(|e| Error::failed(format!("{text}: {e}")));
    let (start, end) = (time(&explanation.start)?, time(&explanation.end)?);
    Ok((start + start.duration_until(end) / 2).to_string())
}

/// Returns shares that are impossible for any recording.
fn shares_beyond_the_whole(explanation: &Explanation) -> Vec<String> {
    let is_impossible = |share: f64| !(0.0..=1.0 + ROUNDING).contains(&share);
    let mut found = Vec::new();
    for episode in &explanation.episodes {
        for finding in &episode.diagnosis.findings {
            let during = finding.during.iter().map(|during| ("of the time", during.share));
            let culprits = finding.culprits.iter().map(|culprit| (&*culprit.name, culprit.share));
            let shares = [("impact", finding.impact)].into_iter().chain(during).chain(culprits);
            let impossible = shares.filter(|(_, share)| is_impossible(*share));
            found.extend(impossible.map(|(of, share)| format!("{}: {of} {share}", finding.key())));
        }
        if is_impossible(episode.impact) || is_impossible(episode.mean_impact) {
            found.push(format!(
                "the episode of {}: impact {}, on average {}",
                episode.key, episode.impact, episode.mean_impact
            ));
        }
    }
    found
}

/// Returns causes that are certain in the last half but missing in the whole recording, although more samples take
/// nothing away.
fn lost_in_the_whole(half: &Explanation, whole: &Explanation) -> Vec<String> {
    let certain = half.episodes.iter().filter_map(|episode| episode.finding()).filter(|finding| {
        finding.confidence == Confidence::High && finding.explained_by.is_none() && finding.impact >= NOTICEABLE
    });
    let is_known = |finding: &Finding| {
        let mut all = whole.episodes.iter().flat_map(|episode| &episode.diagnosis.findings);
        all.any(|known| known.id == finding.id && known.subject.name == finding.subject.name)
    };
    certain.filter(|f| !is_known(f)).map(|f| format!("{} in the last half, and not in the whole", f.key())).collect()
}

/// Converts the causes of all episodes to a diagnosis, with the one that cost most first.
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
        ..Diagnosis::new(verdict, TimeSpan::new(Origin::Recording, samples as f64, samples))
    }
}
