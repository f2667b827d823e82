//! Every number that is known of a thing, whether or not it bears on a finding.

use crate::facts::Facts;
use crate::scope::Scope;
use whyslow_model::diagnosis::{Evidence, Reading, SubjectFigures};
use whyslow_model::window::Window;

/// The signals that are known over a window, of each thing but processes and sockets.
pub fn figures(window: &Window) -> Vec<SubjectFigures> {
    of_facts(&Facts::of(window))
}

/// The same where they were computed already.
pub(crate) fn of_facts(facts: &Facts) -> Vec<SubjectFigures> {
    let is_told = |value: &Reading| !matches!(value, Reading::Text(text) if text.is_empty() || text == "unknown");
    let of = |scope: &Scope| facts.entities(*scope).iter().map(|entity| (*scope, entity)).collect::<Vec<_>>();
    let listed = Scope::ALL.iter().filter(|scope| scope.is_listed());
    listed
        .flat_map(of)
        .map(|(scope, entity)| {
            let known = scope.signals().iter().zip(&entity.values).filter_map(|(signal, value)| {
                let evidence = Evidence {
                    metric: signal.name.to_owned(),
                    value: value.clone().filter(is_told)?,
                    unit: signal.unit.to_owned(),
                    expected: String::new(),
                    source: facts.source_of(signal, entity),
                    how: signal.how.to_owned(),
                };
                // What no capture shows was computed from nothing: no devices, no sharers.
                Some(evidence).filter(|evidence| !evidence.source.is_empty() || signal.source.is_empty())
            });
            SubjectFigures { subject: entity.subject.clone(), values: known.collect() }
        })
        .filter(|figures| !figures.values.is_empty())
        .collect()
}
