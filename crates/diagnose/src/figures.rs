//! Every number that is known of a thing, whether or not it bears on a finding.

use crate::facts::Facts;
use crate::signal::Scope;
use whyslow_model::diagnosis::{Evidence, Reading, SubjectFigures};
use whyslow_model::window::Window;

/// The things whose numbers are told; processes and sockets would be too many.
const SCOPES: [Scope; 12] = [
    Scope::Host,
    Scope::Core,
    Scope::Disk,
    Scope::Part,
    Scope::Array,
    Scope::Partition,
    Scope::Multipath,
    Scope::Interface,
    Scope::Card,
    Scope::Nfs,
    Scope::Transfer,
    Scope::Database,
];

/// The signals that are known over a window, of each thing but processes and sockets.
pub fn figures(window: &Window) -> Vec<SubjectFigures> {
    of_facts(&Facts::of(window))
}

/// The same where they were computed already.
pub(crate) fn of_facts(facts: &Facts) -> Vec<SubjectFigures> {
    let is_told = |value: &Reading| !matches!(value, Reading::Text(text) if text.is_empty() || text == "unknown");
    let of = |scope: Scope| facts.entities(scope).iter().map(move |entity| (scope, entity));
    SCOPES
        .into_iter()
        .chain([Scope::Limit])
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
