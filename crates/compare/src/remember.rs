//! Adds usual values from a baseline to the evidence of findings.

use whyslow_documents::baseline::{Baseline, BaselineKind, BaselineSeries};
use whyslow_documents::diagnosis::{Diagnosis, Evidence, Finding, Reading};
use whyslow_model::human;
use whyslow_model::window::UsualValues;

/// Kinds of subjects with a permanent name: a PID belongs to another process tomorrow.
const LASTING: [&str; 3] = ["device", "interface", "host"];

/// Prefix of the name of a signal's usual value.
const PREFIX: &str = "baseline.";

/// Adds the usual value of the same signal of the same subject, from the baseline, to the evidence of each finding.
/// Judges nothing.
pub fn remember(diagnosis: &mut Diagnosis, baseline: &Baseline) {
    let about_what_lasts = |finding: &&mut Finding| LASTING.contains(&&*finding.subject.kind);
    for finding in diagnosis.findings.iter_mut().filter(about_what_lasts) {
        let subject = &finding.subject;
        let usual = |metric: &str, unit: &str| {
            let series = baseline.series(metric, subject).filter(|series| series.unit == unit);
            series.and_then(|series| then(series, baseline))
        };
        let shown = std::mem::take(&mut finding.evidence);
        let is_shown = |metric: &str| shown.iter().any(|e| e.metric.strip_prefix(PREFIX) == Some(metric));
        finding.evidence = shown
            .iter()
            .flat_map(|evidence| match evidence.metric.strip_prefix(PREFIX) {
                // The rule shows its median already.
                Some(metric) => [usual(metric, &evidence.unit).or_else(|| Some(evidence.clone())), None],
                None if is_shown(&evidence.metric) => [Some(evidence.clone()), None],
                None => [Some(evidence.clone()), usual(&evidence.metric, &evidence.unit)],
            })
            .flatten()
            .collect();
    }
}

/// Returns the median of each signal over a good period, for subjects with a permanent name; rules compare with it.
pub fn usual(baseline: &Baseline) -> UsualValues {
    let lasting = baseline.series.iter().filter(|series| LASTING.contains(&&*series.subject.kind));
    let medians = lasting.filter_map(|BaselineSeries { metric, subject, distribution, .. }| {
        let key = (subject.kind.to_string(), subject.name.clone(), metric.clone());
        Some((key, distribution.quantile(0.5)?))
    });
    if baseline.kind == BaselineKind::Period { medians.collect() } else { UsualValues::new() }
}

/// Returns the usual value of a series; `None` if nothing is known about it.
fn then(series: &BaselineSeries, baseline: &Baseline) -> Option<Evidence> {
    let values = &series.distribution;
    let figure = |value: Option<f64>| value.map(|value| human::quantity(value, &series.unit));
    let day = baseline.start.as_deref().and_then(|start| start.split('T').next()).unwrap_or("an unknown day");
    let (least, most) = (figure(values.quantile(0.05))?, figure(values.quantile(0.95))?);
    Some(Evidence {
        metric: format!("{PREFIX}{}", series.metric),
        value: Reading::Number(values.quantile(0.5)?),
        unit: series.unit.clone(),
        expected: String::new(),
        source: format!("baseline '{}'", baseline.name),
        how: format!("usual on {day}; nine in ten between {least} and {most}, {} at most", figure(values.max())?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::baseline::{Distribution, Inventory};
    use whyslow_documents::diagnosis::Subject;

    /// A finding about a disk that reads 20 MiB/s, and one about a process, as a program prints them.
    const FOUND: &str = r#"{
  "schema": "whyslow.diagnosis/1",
  "host": {"name": null, "kernel": null, "cpus": 2, "memory_bytes": null, "virtualization": null},
  "window": {"start": null, "end": null, "seconds": 10.0, "samples": 11, "source": "live"},
  "verdict": "bottleneck",
  "findings": [
    {"id": "disk.slow_device", "subject": {"kind": "device", "name": "vda"}, "culprits": [], "impact": 0.5,
     "confidence": "high", "summary": "", "explains": [], "explained_by": null, "actions": [],
     "evidence": [
       {"metric": "disk.read_rate", "value": 20971520.0, "unit": "bytes/s", "expected": "", "source": "", "how": ""},
       {"metric": "disk.scheduler", "value": "none", "unit": "text", "expected": "", "source": "", "how": ""}]},
    {"id": "lock.contention", "subject": {"kind": "process", "name": "vda", "pid": 7}, "culprits": [], "impact": 0.5,
     "confidence": "high", "summary": "", "explains": [], "explained_by": null, "actions": [],
     "evidence": [
       {"metric": "disk.read_rate", "value": 1.0, "unit": "bytes/s", "expected": "", "source": "", "how": ""}]}],
  "ruled_out": [], "blind_spots": [], "cost": {"cpu_seconds": 0.0, "cpu_share": 0.0, "memory_bytes": 0}
}"#;

    #[test]
    fn what_a_disk_once_did_stands_beside_what_it_does() {
        let mut diagnosis: Diagnosis = serde_json::from_str(FOUND).unwrap();
        let before = diagnosis.clone();
        let mib = |rate: f64| rate * 1_048_576.0;
        let series = BaselineSeries {
            metric: "disk.read_rate".into(),
            subject: Subject::new("device", "vda"),
            unit: "bytes/s".into(),
            better: None,
            interval: Some(10.0),
            samples: vec![],
            distribution: Distribution::from_values("bytes/s", [mib(149.0), mib(151.0), mib(153.0)]),
            experiment: None,
        };
        let baseline = Baseline {
            name: "default".into(),
            start: Some("2026-05-03T10:00:00Z".into()),
            ..Baseline::new(BaselineKind::Period, Inventory::new(), vec![series])
        };
        remember(&mut diagnosis, &baseline);
        let evidence = &diagnosis.findings[0].evidence;
        let metrics: Vec<&str> = evidence.iter().map(|e| e.metric.as_str()).collect();
        assert_eq!(metrics, ["disk.read_rate", "baseline.disk.read_rate", "disk.scheduler"], "beside what it is about");
        let Reading::Number(then) = evidence[1].value else { panic!("{:?}", evidence[1]) };
        assert!((then / mib(151.0) - 1.0).abs() < 0.02 && evidence[1].unit == "bytes/s");
        assert!(
            evidence[1].how.contains("2026-05-03") && evidence[1].source == "baseline 'default'",
            "{:?}",
            evidence[1]
        );
        diagnosis.findings[0].evidence.remove(1);
        assert_eq!(diagnosis, before, "nothing else is judged by it, and a process of that name is another thing");
    }
}
