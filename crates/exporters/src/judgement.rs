//! Converts a Diagnosis into series: the verdict and the findings.

use crate::series::{MetricFamily, Series, SeriesLabel, SeriesValue};
use whyslow_documents::diagnosis::{Diagnosis, Finding, Verdict};

/// Maximum number of findings with series: those with the greatest impact.
pub(crate) const MOST_FINDINGS: usize = 8;

/// Series of the findings of successive windows. A finding's severity falls, or the finding ends, only after two such
/// windows in a row. Otherwise an alert would resolve and fire again within one episode, since a single window at the
/// edge of a threshold is enough for that.
#[derive(Debug, Default)]
pub struct FindingSeries {
    held: Vec<HeldFinding>,
}

/// Series of a finding, without its severity.
#[derive(Clone, Debug)]
struct HeldFinding {
    labels: Vec<SeriesLabel>,
    severity: &'static str,
    impact: f64,
    culprit: Option<(String, f64)>,
    /// True if the last window gave it a lower severity, or did not have it.
    is_fading: bool,
}

impl HeldFinding {
    fn new(finding: &Finding) -> Self {
        let culprit = finding.culprits.first().map(|culprit| (culprit.name.clone(), culprit.share));
        let severity = severity(finding);
        Self { labels: labels(finding), severity, impact: finding.impact, culprit, is_fading: false }
    }

    /// Returns the finding after one more window, in which it was `found` or not. `None` once it has ended.
    fn next(&self, found: Option<&Self>) -> Option<Self> {
        match found {
            Some(found) if rank(found.severity) >= rank(self.severity) || self.is_fading => Some(found.clone()),
            Some(found) => Some(Self { severity: self.severity, is_fading: true, ..found.clone() }),
            None if self.is_fading => None,
            None => Some(Self { is_fading: true, ..self.clone() }),
        }
    }
}

impl FindingSeries {
    /// Returns the verdict, the findings with their impact and largest consumer, and the number of blind spots after
    /// one more window; and the number of omitted series. `end` is the end of the window, seconds since 1970.
    pub fn families(&mut self, diagnosis: &Diagnosis, end: f64) -> (Vec<MetricFamily>, usize) {
        self.add(&diagnosis.findings);
        let culprits_of = |held: &HeldFinding| usize::from(held.culprit.is_some());
        let shown = &self.held[..self.held.len().min(MOST_FINDINGS)];
        let omitted = self.held[shown.len()..].iter().map(|held| 1 + culprits_of(held)).sum();
        let mut impacts: Vec<Series> = Vec::new();
        let mut culprits: Vec<Series> = Vec::new();
        for HeldFinding { labels, severity, impact, culprit, .. } in shown {
            let with = |label: SeriesLabel| labels.iter().cloned().chain([label]).collect();
            if let Some((name, share)) = culprit {
                let labels = with(SeriesLabel::new("culprit", "whyslow.culprit", name));
                culprits.push(Series { labels, value: SeriesValue::Number(*share) });
            }
            let labels = with(SeriesLabel::new("severity", "whyslow.severity", severity));
            impacts.push(Series { labels, value: SeriesValue::Number(*impact) });
        }
        (families(diagnosis, end, impacts, culprits), omitted)
    }

    /// Takes the findings of one more window, those with the greatest impact first.
    fn add(&mut self, findings: &[Finding]) {
        let mut found: Vec<HeldFinding> = findings.iter().map(HeldFinding::new).collect();
        found.sort_by(|a, b| b.impact.total_cmp(&a.impact));
        let before = std::mem::take(&mut self.held);
        let same = |all: &[HeldFinding], one: &HeldFinding| all.iter().position(|other| other.labels == one.labels);
        for one in &found {
            // Of several processes with one name, the worst is used.
            if same(&self.held, one).is_none() {
                let next = same(&before, one).and_then(|at| before[at].next(Some(one)));
                self.held.push(next.unwrap_or_else(|| one.clone()));
            }
        }
        let gone = before.iter().filter(|one| same(&found, one).is_none());
        self.held.extend(gone.filter_map(|one| one.next(None)));
        self.held.sort_by(|a, b| b.impact.total_cmp(&a.impact));
    }
}

fn families(diagnosis: &Diagnosis, end: f64, impacts: Vec<Series>, culprits: Vec<Series>) -> Vec<MetricFamily> {
    let verdicts = [Verdict::Bottleneck, Verdict::Healthy, Verdict::Undetermined].map(|verdict| Series {
        labels: vec![SeriesLabel::new("verdict", "whyslow.verdict", word(verdict))],
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
            "what was found in the last two windows, with its impact: the share of the time in which work was delayed",
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
    families.into_iter().filter(|family| !family.series.is_empty()).collect()
}

/// Returns the severity of an alert: `critical` is a cause of the verdict, `warning` a suspicion or a cause that is
/// hardly noticeable, `info` an effect of another finding.
pub(crate) fn severity(finding: &Finding) -> &'static str {
    match finding {
        _ if finding.explained_by.is_some() => "info",
        _ if finding.is_felt() => "critical",
        _ => "warning",
    }
}

/// Returns the rank of a severity, from the least severe to the most.
fn rank(severity: &str) -> usize {
    ["info", "warning", "critical"].iter().position(|known| *known == severity).unwrap_or(0)
}

/// Returns the labels of a finding without its severity and its process: a PID would create a series for each run of a
/// program.
fn labels(finding: &Finding) -> Vec<SeriesLabel> {
    let subject = &finding.subject;
    let namespace = subject.netns.as_deref().unwrap_or_default();
    let labels = [
        ("id", "whyslow.finding.id", finding.id.as_str()),
        ("kind", "whyslow.subject.kind", &subject.kind),
        ("subject", "whyslow.subject.name", &subject.name),
        ("netns", "whyslow.network.namespace", namespace),
    ];
    let labels = labels.into_iter().filter(|(_, _, value)| !value.is_empty());
    labels.map(|(name, attribute, value)| SeriesLabel::new(name, attribute, value)).collect()
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
    use whyslow_documents::diagnosis::{Confidence, Culprit, Host, Origin, Subject, TimeSpan};

    pub(crate) fn diagnosis(verdict: Verdict, findings: Vec<Finding>) -> Diagnosis {
        let host = Host { name: Some("db1".into()), ..Host::default() };
        Diagnosis { host, findings, ..Diagnosis::new(verdict, TimeSpan::new(Origin::Live, 10.0, 11)) }
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
        let (families, omitted) = FindingSeries::default().families(&diagnosis, 1_795_279_400.5);
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
        let (families, omitted) =
            FindingSeries::default().families(&diagnosis(Verdict::Bottleneck, many.collect()), 0.0);
        let found = families.iter().find(|family| family.name == "whyslow_finding").unwrap();
        assert_eq!((found.series.len(), omitted), (8, 12));
        assert_eq!(found.series[0].labels[2].value, "sd19");
    }
    /// Returns the severities of a disk's finding over windows: `None` if there was no finding.
    fn severities(windows: &[Option<(f64, bool)>]) -> Vec<Option<String>> {
        let mut series = FindingSeries::default();
        let mut severity = |found: &Option<(f64, bool)>| {
            let finding = found.map(|(impact, is_effect)| Finding {
                explained_by: is_effect.then(|| "cgroup.limited@web".to_owned()),
                ..finding("disk.saturated", "sdb", None, impact, Confidence::High)
            });
            let (families, _) = series.families(&diagnosis(Verdict::Bottleneck, finding.into_iter().collect()), 0.0);
            let found = families.into_iter().find(|family| family.name == "whyslow_finding")?;
            found.series[0].labels.iter().find(|label| label.name == "severity").map(|label| label.value.clone())
        };
        windows.iter().map(&mut severity).collect()
    }

    #[test]
    fn one_window_in_an_episode_does_not_change_the_severity_nor_end_it() {
        let (cause, effect, slight) = (Some((0.6, false)), Some((0.6, true)), Some((0.01, false)));
        let all = |severity: &str, count: usize| vec![Some(severity.to_owned()); count];
        assert_eq!(severities(&[cause, effect, cause, None, cause, slight, cause]), all("critical", 7));
        assert_eq!(severities(&[effect, cause]), [all("info", 1), all("critical", 1)].concat());
        assert_eq!(severities(&[cause, effect, effect]), [all("critical", 2), all("info", 1)].concat());
        assert_eq!(severities(&[cause, None, None]), [all("critical", 2), vec![None]].concat());
    }
}
