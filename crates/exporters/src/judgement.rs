//! A Diagnosis as series: the verdict, and what was found.

use crate::series::{Label, MetricFamily, Series, SeriesValue};
use whyslow_model::diagnosis::{Diagnosis, Finding, Verdict};

/// The most findings that have series; those with the greatest impact.
pub(crate) const MOST_FINDINGS: usize = 8;

/// Verdict, findings with their impact and largest consumer, and the number of blind spots; and how many series were left out.
/// `end` is the end of the window, seconds since 1970.
pub fn findings_families(diagnosis: &Diagnosis, end: f64) -> (Vec<MetricFamily>, usize) {
    let mut findings: Vec<&Finding> = diagnosis.findings.iter().collect();
    findings.sort_by(|a, b| b.impact.total_cmp(&a.impact));
    let mut impacts: Vec<Series> = Vec::new();
    let mut culprits: Vec<Series> = Vec::new();
    let mut omitted = 0;
    for finding in findings {
        let labels = labels(finding);
        // Of processes with one name the worst.
        if impacts.iter().any(|known| known.labels == labels) {
            continue;
        }
        let culprit = finding.culprits.first();
        if impacts.len() == MOST_FINDINGS {
            omitted += 1 + usize::from(culprit.is_some());
            continue;
        }
        if let Some(culprit) = culprit {
            let name = Label::new("culprit", "whyslow.culprit", &culprit.name);
            let of = labels.iter().filter(|label| label.name != "severity").cloned();
            let labels = of.chain([name]).collect();
            culprits.push(Series { labels, value: SeriesValue::Number(culprit.share) });
        }
        impacts.push(Series { labels, value: SeriesValue::Number(finding.impact) });
    }
    let verdicts = [Verdict::Bottleneck, Verdict::Healthy, Verdict::Undetermined].map(|verdict| Series {
        labels: vec![Label::new("verdict", "whyslow.verdict", word(verdict))],
        value: SeriesValue::Number(f64::from(u8::from(diagnosis.verdict == verdict))),
    });
    let blind_spots = Series::plain(diagnosis.blind_spots.len() as f64);
    let families = vec![
        MetricFamily::own_gauge(
            "whyslow_verdict",
            "whyslow.verdict",
            "1",
            "1 for the verdict on the last window, 0 for the others",
            verdicts.to_vec(),
        ),
        MetricFamily::own_gauge(
            "whyslow_finding",
            "whyslow.finding",
            "1",
            "what was found in the last window, with its impact: the share of the time in which work was delayed",
            impacts,
        ),
        MetricFamily::own_gauge(
            "whyslow_finding_culprit_ratio",
            "whyslow.finding.culprit",
            "1",
            "the share of the largest consumer of what was found",
            culprits,
        ),
        MetricFamily::own_gauge(
            "whyslow_blind_spots",
            "whyslow.blind_spots",
            "{count}",
            "what could not be observed",
            vec![blind_spots],
        ),
        MetricFamily::own_gauge(
            "whyslow_judged_timestamp_seconds",
            "whyslow.judged",
            "s",
            "the end of the last window, since 1970",
            vec![Series::plain(end)],
        ),
    ];
    (families.into_iter().filter(|family| !family.series.is_empty()).collect(), omitted)
}

/// The severity of an alert: `critical` is a cause of the verdict, `warning` a suspicion or a cause that is hardly
/// felt, `info` an effect of another finding.
pub(crate) fn severity(finding: &Finding) -> &'static str {
    match finding {
        _ if finding.explained_by.is_some() => "info",
        _ if finding.is_felt() => "critical",
        _ => "warning",
    }
}

/// A finding without its process: a PID would make a series of each run of a program.
fn labels(finding: &Finding) -> Vec<Label> {
    let subject = &finding.subject;
    let namespace = subject.netns.as_deref().unwrap_or_default();
    let labels = [
        ("id", "whyslow.finding.id", finding.id.as_str()),
        ("kind", "whyslow.subject.kind", &subject.kind),
        ("subject", "whyslow.subject.name", &subject.name),
        ("netns", "whyslow.network.namespace", namespace),
        ("severity", "whyslow.severity", severity(finding)),
    ];
    let labels = labels.into_iter().filter(|(_, _, value)| !value.is_empty());
    labels.map(|(name, attribute, value)| Label::new(name, attribute, value)).collect()
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Bottleneck => "bottleneck",
        Verdict::Healthy => "healthy",
        Verdict::Undetermined => "undetermined",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::text;
    use whyslow_model::diagnosis::{Confidence, Culprit, Host, Origin, Subject, TimeSpan};

    pub(crate) fn diagnosis(verdict: Verdict, findings: Vec<Finding>) -> Diagnosis {
        let host = Host { name: Some("db1".into()), ..Host::default() };
        Diagnosis { host, findings, ..Diagnosis::new(verdict, TimeSpan::of(Origin::Live, 10.0, 11)) }
    }

    pub(crate) fn finding(id: &str, name: &str, pid: Option<u32>, impact: f64, confidence: Confidence) -> Finding {
        let subject = Subject { pid, ..Subject::new(if pid.is_some() { "process" } else { "device" }, name) };
        Finding { id: id.into(), subject, impact, confidence, ..Finding::default() }
    }

    #[test]
    fn findings_have_their_impact_and_no_pid() {
        let culprit = Culprit { name: "backup.sh".into(), pid: Some(812), share: 0.71, ..Culprit::default() };
        let saturated =
            Finding { culprits: vec![culprit], ..finding("disk.saturated", "sdb", None, 0.62, Confidence::High) };
        let effect = Finding {
            explained_by: Some("disk.saturated@sdb".into()),
            ..finding("process.blocked", "postgres", Some(7), 0.4, Confidence::High)
        };
        let namesake =
            Finding { subject: Subject { pid: Some(8), ..effect.subject.clone() }, impact: 0.5, ..effect.clone() };
        let suspicion = finding("net.shaper", "eth0", None, 0.3, Confidence::Low);
        let diagnosis = diagnosis(Verdict::Bottleneck, vec![saturated, effect, namesake, suspicion]);
        let (families, omitted) = findings_families(&diagnosis, 1_795_279_400.5);
        let text = text::exposition(&families);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                r#"whyslow_verdict{verdict="bottleneck"} 1"#,
                r#"whyslow_verdict{verdict="healthy"} 0"#,
                r#"whyslow_verdict{verdict="undetermined"} 0"#,
                r#"whyslow_finding{id="disk.saturated",kind="device",subject="sdb",severity="critical"} 0.62"#,
                r#"whyslow_finding{id="process.blocked",kind="process",subject="postgres",severity="info"} 0.5"#,
                r#"whyslow_finding{id="net.shaper",kind="device",subject="eth0",severity="warning"} 0.3"#,
                r#"whyslow_finding_culprit_ratio{id="disk.saturated",kind="device",subject="sdb",culprit="backup.sh"} 0.71"#,
                "whyslow_blind_spots 0",
                "whyslow_judged_timestamp_seconds 1795279400.5",
            ]
        );
        assert_eq!(omitted, 0);
    }

    #[test]
    fn there_is_a_limit_to_findings() {
        let many =
            (0..20).map(|n| finding("disk.errors", &format!("sd{n}"), None, f64::from(n) / 20.0, Confidence::High));
        let (families, omitted) = findings_families(&diagnosis(Verdict::Bottleneck, many.collect()), 0.0);
        let found = families.iter().find(|family| family.name == "whyslow_finding").unwrap();
        assert_eq!((found.series.len(), omitted), (8, 12));
        assert_eq!(found.series[0].labels[2].value, "sd19");
    }
}
