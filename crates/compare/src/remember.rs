//! What a thing was like when all was well, beside what is found of it now.

use whyslow_model::baseline::{Baseline, BaselineSeries};
use whyslow_model::diagnosis::{Diagnosis, Evidence, Finding, Reading};
use whyslow_model::human;

/// Kinds of subject whose name is theirs for good: the process of a number is another one tomorrow.
const LASTING: [&str; 3] = ["device", "interface", "host"];

/// Adds to the evidence of each finding what the same signal of the same thing was over the baseline. Judges nothing.
pub fn remember(diagnosis: &mut Diagnosis, baseline: &Baseline) {
    let about_what_lasts = |finding: &&mut Finding| LASTING.contains(&&*finding.subject.kind);
    for finding in diagnosis.findings.iter_mut().filter(about_what_lasts) {
        for evidence in std::mem::take(&mut finding.evidence) {
            let series = baseline.series(&evidence.metric, &finding.subject).filter(|s| s.unit == evidence.unit);
            let then = series.and_then(|series| then(series, baseline));
            finding.evidence.push(evidence);
            finding.evidence.extend(then);
        }
    }
}

/// What a series usually was; `None` where nothing is known of it.
fn then(series: &BaselineSeries, baseline: &Baseline) -> Option<Evidence> {
    let values = &series.distribution;
    let figure = |value: Option<f64>| value.map(|value| human::quantity(value, &series.unit));
    let day = baseline.start.as_deref().and_then(|start| start.split('T').next()).unwrap_or("an unknown day");
    let (least, most) = (figure(values.quantile(0.05))?, figure(values.quantile(0.95))?);
    Some(Evidence {
        metric: format!("baseline.{}", series.metric),
        value: Reading::Number(values.quantile(0.5)?),
        unit: series.unit.clone(),
        expected: String::new(),
        source: format!("baseline '{}'", baseline.name),
        how: format!("usual on {day}; nine in ten between {least} and {most}, {} at most", figure(values.max())?),
    })
}
