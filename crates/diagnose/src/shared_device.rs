//! Finds a device of one capture that carries several of another's: a guest or client sees as separate devices what are volumes
//! on one device of its host or server. Each capture alone shows a part; rule `disk.shared` is judged on both together. Equal
//! sums alone are no evidence, as any two machines may have them: nothing else may contradict it.

use crate::facts::Facts;
use crate::judge::judge;
use crate::rule::Rule;
use crate::rule_context::RuleContext;
use crate::rulebook::RuleBook;
use crate::scope::Scope;
use crate::signal::{Entity, Signal};
use whyslow_documents::diagnosis::{Confidence, Diagnosis, Evidence, Finding, Reading, Subject, SubjectFigures};
use whyslow_model::window::Window;

const ID: &str = "disk.shared";
/// Relative difference allowed between the sums of two captures: they were not taken over the same seconds.
const SLACK: f64 = 0.15;

/// Returns findings for devices that carry several of another capture's: the only contended device there, whose rate is the sum
/// of theirs.
pub fn findings(parts: &[Diagnosis], book: &RuleBook) -> Vec<Finding> {
    let Some(rule) = book.all().iter().find(|rule| rule.id == ID && rule.scope == Scope::Disk) else {
        return Vec::new();
    };
    let contended: Vec<Vec<&SubjectFigures>> = parts.iter().map(|part| contended(part, rule)).collect();
    let mut found = Vec::new();
    for (below, devices) in contended.iter().enumerate() {
        let [carrier] = devices[..] else { continue };
        for (above, volumes) in contended.iter().enumerate().filter(|(above, v)| *above != below && v.len() >= 2) {
            let pair = [&parts[above], &parts[below]];
            let is_ruled_out = pair[0].host.is_another(&pair[1].host)
                || are_of_different_times(pair)
                || can_be_of_one_machine(pair[1], carrier, volumes);
            if !is_ruled_out && carries(carrier, volumes) {
                found.extend(finding(rule, carrier, volumes, pair));
            }
        }
    }
    found
}

/// Returns true if the device can be the one that serves the volumes: it moves as much in each direction, and no volume
/// completes requests before the device does.
fn carries(carrier: &SubjectFigures, volumes: &[&SubjectFigures]) -> bool {
    let Some(rate) = rate(carrier) else { return false };
    let sum = |metric: &str| volumes.iter().map(|volume| volume.number(metric)).sum::<Option<f64>>();
    let is_near = |a: f64, b: f64| (a - b).abs() <= SLACK * rate;
    let matches = |metric: &str| sum(metric).zip(carrier.number(metric)).is_none_or(|(a, b)| is_near(a, b));
    let is_whole = sum("disk.rate").is_some_and(|sum| is_near(sum, rate));
    let longest = volumes.iter().filter_map(|volume| volume.number("disk.wait")).reduce(f64::max);
    let waits = longest.zip(carrier.number("disk.wait"));
    let is_slower = waits.is_none_or(|(volume, device)| volume >= device * (1.0 - SLACK));
    is_whole && matches("disk.read_rate") && matches("disk.write_rate") && is_slower
}

/// Returns true if the times of both captures are known and do not overlap.
fn are_of_different_times([a, b]: [&Diagnosis; 2]) -> bool {
    let span = |part: &Diagnosis| {
        let time = |text: &Option<String>| text.as_ref()?.parse::<jiff::Timestamp>().ok();
        time(&part.window.start).zip(time(&part.window.end))
    };
    let spans = span(a).zip(span(b));
    spans.is_some_and(|((a_start, a_end), (b_start, b_end))| a_end < b_start || b_end < a_start)
}

/// Returns true if the device and the volumes can belong to the same machine at different times: single and striped, for
/// example. The same bytes on one disk as on two have the same sums. A listing of all devices would also show the volumes; one
/// that is restricted to the device in use says nothing about others.
fn can_be_of_one_machine(below: &Diagnosis, carrier: &SubjectFigures, volumes: &[&SubjectFigures]) -> bool {
    let devices = || below.figures.iter().filter(|figures| figures.subject.kind == "device");
    let listed = |name: &str| devices().any(|figures| figures.subject.name == name);
    let is_known = |volume: &&SubjectFigures| listed(&volume.subject.name);
    let restricted = devices().count() == 1;
    volumes.iter().any(|volume| volume.subject.name == carrier.subject.name)
        && (restricted || volumes.iter().all(is_known))
}

/// Returns the devices of a capture on which the rule would hold if others shared them.
fn contended<'d>(part: &'d Diagnosis, rule: &Rule) -> Vec<&'d SubjectFigures> {
    let host = Entity::unknown(Subject::host());
    let holds = |figures: &&SubjectFigures| {
        let device = device(figures, &[("disk.sharers", Reading::Number(2.0))]);
        rule.when.holds(&RuleContext::new(&device, &host)) && rate(figures) > Some(0.0)
    };
    part.figures.iter().filter(|figures| figures.subject.kind == "device").filter(holds).collect()
}

/// Creates the entity of a device as its capture shows it, with some signals overridden.
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
    let facts =
        Facts { entities: [(Scope::Disk, disks)].into(), running: None, ..Facts::from_window(&Window::default()) };
    let (judged, _) = judge(std::slice::from_ref(rule), &facts);
    let finding = judged.into_iter().next()?.finding;
    let seen = |shown: Evidence| match carrier.evidence(&shown.metric) {
        Some(seen) => Evidence { expected: shown.expected, ..seen.clone() },
        None => shown,
    };
    Some(Finding {
        evidence: finding.evidence.into_iter().map(seen).collect(),
        explains: explained(carrier, volumes, parts),
        // Matching sums can be chance.
        confidence: finding.confidence.min(Confidence::Medium),
        ..finding
    })
}

/// Returns the keys of what the captures found about the device and about those that it carries.
fn explained(carrier: &SubjectFigures, volumes: &[&SubjectFigures], parts: [&Diagnosis; 2]) -> Vec<String> {
    let subjects: Vec<_> = volumes.iter().map(|volume| &volume.subject).chain([&carrier.subject]).collect();
    let is_theirs = |finding: &&Finding| finding.id.starts_with("disk.") && subjects.contains(&&finding.subject);
    parts.iter().flat_map(|part| &part.findings).filter(is_theirs).map(Finding::key).collect()
}
