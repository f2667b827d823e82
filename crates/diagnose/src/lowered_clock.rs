//! Compares two captures of one machine in which its CPUs have different highest frequencies: something lowered it in between.
//! Either capture alone shows a limit that may be intended. Rule `cpu.frequency` (`fell`) is judged on both together.

use crate::facts::Facts;
use crate::judge::judge;
use crate::rulebook::RuleBook;
use crate::scope::Scope;
use crate::signal::{Entity, Signal};
use whyslow_documents::diagnosis::{Diagnosis, Evidence, Finding, Reading, SubjectFigures};
use whyslow_model::window::Window;

const ID: &str = "cpu.frequency";
const VARIANT: &str = "fell";
const LIMIT: &str = "cpu.clock_limit";
const LIMIT_ELSEWHERE: &str = "cpu.clock_limit_elsewhere";
/// Signals that must be equal for two captures to be of one kind of CPU.
const MODEL: &str = "cpu.model";
const HARDWARE_LIMIT: &str = "cpu.hardware_limit";

/// Returns, for each capture, the finding that its CPUs have a lower limit than in another capture of the same machine.
pub fn findings(parts: &[Diagnosis], book: &RuleBook) -> Vec<Finding> {
    let Some(rule) = book.all().iter().find(|rule| rule.id == ID && rule.variant == VARIANT) else {
        return Vec::new();
    };
    let hosts: Vec<(&Diagnosis, &SubjectFigures)> =
        parts.iter().filter_map(|part| Some((part, part.figures.iter().find(|f| f.subject.kind == "host")?))).collect();
    let finding = |&(part, host): &(&Diagnosis, &SubjectFigures)| {
        let same = hosts.iter().filter(|&&other| is_same_cpu((part, host), other));
        let highest = same.filter_map(|(_, figures)| figures.number(LIMIT)).reduce(f64::max)?;
        let value = |signal: &Signal| match signal.name {
            LIMIT_ELSEWHERE => {
                Some(Reading::Number(host.number(LIMIT_ELSEWHERE).map_or(highest, |own| own.max(highest))))
            }
            name => Some(host.evidence(name)?.value.clone()),
        };
        let signals = Scope::Host.signals();
        let values = signals.iter().map(value).collect();
        let machine = Entity { signals, values, ..Entity::unknown(host.subject.clone()) };
        let entities = [(Scope::Host, vec![machine.clone()])].into();
        let facts = Facts { host: machine, entities, running: None, ..Facts::from_window(&Window::default()) };
        let (judged, _) = judge(std::slice::from_ref(rule), &facts);
        let finding = judged.into_iter().next()?.finding;
        let seen = |shown: Evidence| match host.evidence(&shown.metric) {
            Some(seen) => Evidence { expected: shown.expected, ..seen.clone() },
            None => shown,
        };
        Some(Finding { evidence: finding.evidence.into_iter().map(seen).collect(), ..finding })
    };
    hosts.iter().filter_map(finding).collect()
}

/// Returns true if two captures are of the same machine: the same name, or none, and the same CPUs by their model, or by the
/// highest frequency of the hardware where only the policy differs.
fn is_same_cpu(a: (&Diagnosis, &SubjectFigures), b: (&Diagnosis, &SubjectFigures)) -> bool {
    let counts = a.0.host.cpus.zip(b.0.host.cpus);
    let same_number = || {
        let limits = a.1.number(HARDWARE_LIMIT).zip(b.1.number(HARDWARE_LIMIT));
        limits.is_some_and(|(a, b)| a == b)
    };
    let same_model = match (a.1.evidence(MODEL), b.1.evidence(MODEL)) {
        (Some(a), Some(b)) => a.value == b.value,
        (None, None) => same_number(),
        _ => false,
    };
    !a.0.host.is_another(&b.0.host) && counts.is_none_or(|(a, b)| a == b) && same_model
}
