//! A device of one capture that carries several of another's: what a guest or client sees as devices of its own are volumes on
//! one device of its host or server. Each capture alone shows a part; rule `disk.shared` is judged on both together.

use crate::facts::Facts;
use crate::judge::judge;
use crate::rule::Rule;
use crate::rule_context::RuleContext;
use crate::rulebook::RuleBook;
use crate::scope::Scope;
use crate::signal::{Entity, Signal};
use whyslow_model::diagnosis::{Confidence, Diagnosis, Evidence, Finding, Reading, Subject, SubjectFigures};
use whyslow_model::window::Window;

const ID: &str = "disk.shared";
/// How far the sums of two captures may be apart: they were not taken over the same seconds.
const SLACK: f64 = 0.15;

/// Devices that carry several of another capture's: the only contended one there, whose rate is the sum of theirs.
pub fn findings(parts: &[Diagnosis], book: &RuleBook) -> Vec<Finding> {
    let Some(rule) = book.all().iter().find(|rule| rule.id == ID && rule.scope == Scope::Disk) else {
        return Vec::new();
    };
    let contended: Vec<Vec<&SubjectFigures>> = parts.iter().map(|part| contended(part, rule)).collect();
    let mut found = Vec::new();
    for (below, devices) in contended.iter().enumerate() {
        let [carrier] = devices[..] else { continue };
        for (above, volumes) in contended.iter().enumerate().filter(|(above, v)| *above != below && v.len() >= 2) {
            if can_be_of_one_machine(&parts[below], carrier, volumes) {
                continue;
            }
            let sum: f64 = volumes.iter().filter_map(|volume| rate(volume)).sum();
            if rate(carrier).is_some_and(|rate| (sum / rate - 1.0).abs() <= SLACK) {
                found.extend(finding(rule, carrier, volumes, [&parts[above], &parts[below]]));
            }
        }
    }
    found
}

/// Whether the device and the volumes can be of the same machine at different times: single and striped, for example. What moves
/// the same bytes on one disk as on two has the same sums. A listing of all devices would show the volumes, too; one that is
/// restricted to the device that is used says nothing of others.
fn can_be_of_one_machine(below: &Diagnosis, carrier: &SubjectFigures, volumes: &[&SubjectFigures]) -> bool {
    let devices = || below.figures.iter().filter(|figures| figures.subject.kind == "device");
    let listed = |name: &str| devices().any(|figures| figures.subject.name == name);
    let is_known = |volume: &&SubjectFigures| listed(&volume.subject.name);
    let restricted = devices().count() == 1;
    volumes.iter().any(|volume| volume.subject.name == carrier.subject.name)
        && (restricted || volumes.iter().all(is_known))
}

/// The devices of a capture on which the rule would hold if others shared them.
fn contended<'d>(part: &'d Diagnosis, rule: &Rule) -> Vec<&'d SubjectFigures> {
    let host = Entity::unknown(Subject::host());
    let holds = |figures: &&SubjectFigures| {
        let device = device(figures, &[("disk.sharers", Reading::Number(2.0))]);
        rule.when.holds(&RuleContext::new(&device, &host)) && rate(figures) > Some(0.0)
    };
    part.figures.iter().filter(|figures| figures.subject.kind == "device").filter(holds).collect()
}

/// A device as its capture shows it, but for some signals.
fn device(figures: &SubjectFigures, known: &[(&str, Reading)]) -> Entity {
    let value = |signal: &Signal| {
        let known = known.iter().find(|(name, _)| *name == signal.name).map(|(_, value)| value);
        known.or_else(|| Some(&figures.evidence(signal.name)?.value)).cloned()
    };
    let signals = Scope::Disk.signals();
    Entity { signals, values: signals.iter().map(value).collect(), ..Entity::unknown(figures.subject.clone()) }
}

fn rate(figures: &SubjectFigures) -> Option<f64> {
    figures.number("disk.rate")
}

fn finding(
    rule: &Rule,
    carrier: &SubjectFigures,
    volumes: &[&SubjectFigures],
    parts: [&Diagnosis; 2],
) -> Option<Finding> {
    let mut disks = vec![device(carrier, &[("disk.sharers", Reading::Number(volumes.len() as f64))])];
    disks.extend(volumes.iter().map(|figures| {
        let below = Reading::Text(format!(" {} ", carrier.subject.name));
        let none = Reading::Number(0.0);
        let known = [("disk.below", below), ("disk.member", none.clone()), ("disk.sharers", none)];
        let mut volume = device(figures, &known);
        let capture = volume.subject.capture.take().unwrap_or_else(|| "another capture".to_owned());
        volume.subject.name = format!("{} in {capture}", volume.subject.name);
        volume
    }));
    let facts = Facts { entities: [(Scope::Disk, disks)].into(), running: None, ..Facts::of(&Window::default()) };
    let (judged, _) = judge(std::slice::from_ref(rule), &facts);
    let finding = judged.into_iter().next()?.finding;
    let seen = |shown: Evidence| match carrier.evidence(&shown.metric) {
        Some(seen) => Evidence { expected: shown.expected, ..seen.clone() },
        None => shown,
    };
    Some(Finding {
        evidence: finding.evidence.into_iter().map(seen).collect(),
        explains: explained(carrier, volumes, parts),
        // That the sums match can be chance.
        confidence: finding.confidence.min(Confidence::Medium),
        ..finding
    })
}

/// What the captures found of the device, and of those it carries.
fn explained(carrier: &SubjectFigures, volumes: &[&SubjectFigures], parts: [&Diagnosis; 2]) -> Vec<String> {
    let subjects: Vec<_> = volumes.iter().map(|volume| &volume.subject).chain([&carrier.subject]).collect();
    let is_theirs = |finding: &&Finding| finding.id.starts_with("disk.") && subjects.contains(&&finding.subject);
    parts.iter().flat_map(|part| &part.findings).filter(is_theirs).map(Finding::key).collect()
}
