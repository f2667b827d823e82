//! A diagnosis as the output of a Nagios or Icinga plugin (nagios-plugins.org/doc/guidelines.html): one line, performance data after
//! a bar, and the exit status.

use crate::escape;
use whyslow_documents::diagnosis::{Basis, Diagnosis, Finding, Verdict};

/// Impact from which on a bottleneck is critical: work was delayed half of the time.
const CRITICAL: f64 = 0.5;
/// UNKNOWN of the plugin interface; also for failures before there is a diagnosis.
pub const UNKNOWN: u8 = 3;

/// Returns the line, with a newline, and the exit status: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
pub fn status_line(diagnosis: &Diagnosis) -> (String, u8) {
    let worst = diagnosis.findings.first();
    let (word, status) = match (diagnosis.verdict, worst) {
        (Verdict::Healthy, _) => ("OK", 0),
        (Verdict::Undetermined, _) => ("UNKNOWN", UNKNOWN),
        (Verdict::Bottleneck, Some(worst)) if worst.impact >= CRITICAL => ("CRITICAL", 2),
        (Verdict::Bottleneck, _) => ("WARNING", 1),
    };
    let what = match diagnosis.verdict {
        Verdict::Bottleneck => worst.map_or_else(String::new, described),
        Verdict::Healthy => "no resource is saturated or failing".into(),
        Verdict::Undetermined => match diagnosis.not_cleared.first() {
            Some(resource) => format!("no cause is known, but {}", resource.because),
            None => "too little was visible to tell".into(),
        },
    };
    let impact = worst.map_or(0.0, |worst| worst.impact);
    let figures = format!("impact={impact:.3};;{CRITICAL};0;1 findings={};;;0", diagnosis.findings.len());
    (format!("WHYSLOW {word} - {} | {figures}\n", one_line(&what)), status)
}

fn described(finding: &Finding) -> String {
    let mut text = finding.summary.clone();
    if let Some(culprit) = finding.culprits.first() {
        text += &format!(" Who: {}, {:.0} % of {}.", culprit.name, culprit.share * 100.0, culprit.of);
    }
    if finding.impact_is == Basis::Measured && finding.how_bad.is_none() {
        text += &format!(" Tasks stalled {:.0} % of the time.", finding.impact * 100.0);
    }
    text
}

/// Formats text on one line, without the character that begins performance data.
pub fn one_line(text: &str) -> String {
    escape::terminal(text).replace('|', "/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::diagnosis::{Culprit, NotCleared};

    fn diagnosis(verdict: &str, findings: Vec<Finding>) -> Diagnosis {
        let mut document = serde_json::json!({
            "schema": "whyslow.diagnosis/1",
            "host": { "name": "db1", "kernel": null, "cpus": 2, "memory_bytes": null, "virtualization": null },
            "window": { "start": null, "end": null, "seconds": 10.0, "samples": 11, "source": "live" },
            "verdict": verdict,
            "findings": [], "ruled_out": [], "blind_spots": [],
            "cost": { "cpu_seconds": 0.0, "cpu_share": 0.0, "memory_bytes": 0 },
        });
        document["findings"] = serde_json::to_value(findings).unwrap();
        serde_json::from_value(document).unwrap()
    }

    fn finding(impact: f64) -> Finding {
        let culprit = Culprit { name: "back|up\n.sh".into(), share: 0.71, of: "requests".into(), ..Culprit::default() };
        Finding {
            id: "disk.saturated".into(),
            impact,
            summary: "sdb cannot keep up.".into(),
            culprits: vec![culprit],
            ..Finding::default()
        }
    }

    #[test]
    fn a_bottleneck_is_a_warning_and_critical_from_half_of_the_time_on() {
        assert_eq!(
            status_line(&diagnosis("bottleneck", vec![finding(0.62)])),
            (
                "WHYSLOW CRITICAL - sdb cannot keep up. Who: back/up\\n.sh, 71 % of requests. Tasks stalled 62 % of the time. \
                 | impact=0.620;;0.5;0;1 findings=1;;;0\n"
                    .into(),
                2
            )
        );
        let (line, status) = status_line(&diagnosis("bottleneck", vec![finding(0.2)]));
        assert!(line.starts_with("WHYSLOW WARNING - ") && status == 1, "{line}");
    }

    #[test]
    fn healthy_is_ok_and_undetermined_is_unknown() {
        let healthy = status_line(&diagnosis("healthy", vec![]));
        assert_eq!(
            healthy,
            ("WHYSLOW OK - no resource is saturated or failing | impact=0.000;;0.5;0;1 findings=0;;;0\n".into(), 0)
        );
        let mut unknown = diagnosis("undetermined", vec![]);
        unknown.not_cleared = vec![NotCleared { id: "disk".into(), because: "sdb is busy".into(), during: None }];
        let (line, status) = status_line(&unknown);
        assert!(line.starts_with("WHYSLOW UNKNOWN - no cause is known, but sdb is busy | ") && status == 3, "{line}");
    }
}
