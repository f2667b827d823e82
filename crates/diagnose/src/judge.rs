//! Applies the rules: what holds becomes a finding, what only looks like it is ruled out.

use crate::expr::{Expr, Truth};
use crate::facts::Facts;
use crate::rule::{ActionSpec, CulpritSpec, Rule};
use crate::scene::Stage;
use crate::signal::{Entity, Scope};
use std::collections::BTreeMap;
use whyslow_model::diagnosis::{Action, Basis, Confidence, Culprit, Evidence, Finding, RuledOut, Subject};

/// How many findings of one rule are worth a reader's time.
const MOST_OF_ONE_RULE: usize = 4;
/// How many culprits are named.
const MOST_CULPRITS: usize = 5;
/// The smallest share that makes a culprit.
const SMALLEST_SHARE: f64 = 0.03;

/// A finding with what is needed to relate it to others.
pub struct Judged {
    /// The finding.
    pub finding: Finding,
    /// The ids it explains.
    pub explains: Vec<String>,
    /// Whether on whatever they were found.
    pub explains_all: bool,
    /// Its share of what it explains, by id, where the rule computes one.
    pub shares: BTreeMap<String, f64>,
    /// The control groups of its subject, one a line.
    pub cgroup: Option<String>,
    /// Other names its subject goes by.
    pub aliases: Vec<String>,
}

/// Judges every rule on every entity of its scope.
pub fn judge(rules: &[Rule], facts: &Facts) -> (Vec<Judged>, Vec<RuledOut>) {
    let mut found = Vec::new();
    let mut ruled_out = Vec::new();
    for rule in rules {
        let mut of_rule: Vec<Judged> = Vec::new();
        for entity in facts.entities(rule.scope).iter().filter(|e| !e.idle) {
            let mut stage = Stage::new(rule.scope, entity, &facts.host);
            if rule.when.truth(&stage) != Truth::True {
                continue;
            }
            let alike = rule
                .look_alikes
                .iter()
                .find(|l| l.unless.as_ref().is_some_and(|unless| unless.truth(&stage) == Truth::True));
            match alike {
                Some(alike) => ruled_out.push(RuledOut {
                    id: format!("{}@{}", rule.id, entity.subject.name),
                    because: alike.text.prose(&stage),
                }),
                None => of_rule.push(finding(rule, entity, &mut stage, facts)),
            }
        }
        of_rule.sort_by(|a, b| weight(&b.finding).total_cmp(&weight(&a.finding)));
        of_rule.truncate(MOST_OF_ONE_RULE);
        add(&mut found, of_rule);
    }
    (found, ruled_out)
}

/// Adds what one rule found. Where another rule of the same id found the same of the same thing, the one that weighs more
/// stays.
fn add(found: &mut Vec<Judged>, of_rule: Vec<Judged>) {
    let before = found.len();
    for judged in of_rule {
        let key = judged.finding.key();
        match found[..before].iter_mut().find(|other| other.finding.key() == key) {
            Some(other) if weight(&other.finding) < weight(&judged.finding) => *other = judged,
            Some(_) => {}
            None => found.push(judged),
        }
    }
}

/// What a finding weighs against others: the time lost, the surer the heavier. Of what is only known at its least, the
/// middle between that and all of the time.
pub fn weight(finding: &Finding) -> f64 {
    let lost = if finding.impact_is == Basis::AtLeast { (finding.impact + 1.0) / 2.0 } else { finding.impact };
    lost * match finding.confidence {
        Confidence::High => 1.0,
        Confidence::Medium => 0.7,
        Confidence::Low => 0.2,
    }
}

fn finding(rule: &Rule, entity: &Entity, stage: &mut Stage<'_>, facts: &Facts) -> Judged {
    let holds = |expr: &Option<Expr>, stage: &Stage<'_>| expr.as_ref().is_some_and(|e| e.truth(stage) == Truth::True);
    let confidence = if holds(&rule.high, stage) {
        Confidence::High
    } else if holds(&rule.medium, stage) {
        Confidence::Medium
    } else {
        Confidence::Low
    };
    let mut culprits: Vec<Culprit> = Vec::new();
    for culprit in rule.culprits.iter().flat_map(|c| blame(c, stage, facts)) {
        // Who is named by one measure is not named again by a lesser one.
        if !culprits.iter().any(|c| (&c.kind, &c.name, c.pid) == (&culprit.kind, &culprit.name, culprit.pid)) {
            culprits.push(culprit);
        }
    }
    culprits.truncate(MOST_CULPRITS);
    stage.blame(&culprits);
    let (impact, impact_is) = impact(rule, stage);
    let finding = Finding {
        id: rule.id.clone(),
        subject: if rule.host_is_subject { Subject::host() } else { entity.subject.clone() },
        culprits,
        impact,
        impact_is,
        confidence,
        summary: rule.summary.prose(stage),
        evidence: evidence(rule, entity, stage, facts),
        explains: Vec::new(),
        explained_by: None,
        actions: rule.actions.iter().filter_map(|a| action(a, stage)).collect(),
    };
    Judged {
        finding,
        explains: rule.explains.clone(),
        explains_all: rule.explains_all,
        shares: rule.accounts_for.iter().filter_map(|(id, e)| Some((id.clone(), e.number(stage)?))).collect(),
        cgroup: entity.cgroup.clone(),
        aliases: entity.aliases.clone(),
    }
}

/// The time lost, and what that number rests on.
fn impact(rule: &Rule, stage: &Stage<'_>) -> (f64, Basis) {
    let number = |expr: &Option<Expr>| expr.as_ref().and_then(|e| e.number(stage)).map(|n| n.clamp(0.0, 1.0));
    match number(&rule.impact) {
        Some(lost) if rule.at_least => (lost, Basis::AtLeast),
        Some(lost) => (lost, Basis::Measured),
        None if rule.severity.is_some() => (number(&rule.severity).unwrap_or(0.0), Basis::NotMeasured),
        None => (0.0, Basis::Measured),
    }
}

fn evidence(rule: &Rule, entity: &Entity, stage: &Stage<'_>, facts: &Facts) -> Vec<Evidence> {
    let signals = [rule.scope, Scope::Host].into_iter().flat_map(Scope::signals);
    rule.evidence
        .iter()
        .filter_map(|spec| {
            let signal = signals.clone().find(|s| s.name == spec.signal)?;
            Some(Evidence {
                metric: signal.name.to_owned(),
                value: stage.reading(signal.name)?.clone(),
                unit: signal.unit.to_owned(),
                expected: spec.expected.clone(),
                source: facts.source_of(signal, entity),
                how: signal.how.to_owned(),
            })
        })
        .collect()
}

/// Who used the thing up, by their share of it.
fn blame<'a>(spec: &CulpritSpec, stage: &Stage<'a>, facts: &'a Facts) -> Vec<Culprit> {
    // Threads of one process are one culprit.
    let mut weighed: BTreeMap<(&str, &str, Option<u32>), (&Entity, f64)> = BTreeMap::new();
    for candidate in facts.entities(spec.scope) {
        let scene = stage.weigh(spec.scope, candidate);
        if spec.among.as_ref().is_some_and(|among| among.truth(&scene) != Truth::True) {
            continue;
        }
        if let Some(part) = spec.by.number(&scene).filter(|part| *part > 0.0) {
            let Subject { kind, name, pid, .. } = &candidate.subject;
            weighed.entry((kind, name, *pid)).or_insert((candidate, 0.0)).1 += part;
        }
    }
    let all: f64 = weighed.values().map(|(_, part)| part).sum();
    let mut culprits: Vec<Culprit> = weighed
        .into_iter()
        .map(|((kind, name, pid), (entity, part))| Culprit {
            kind: kind.to_owned(),
            name: name.to_owned(),
            pid,
            cgroup: entity.deepest_cgroup().filter(|_| kind != "cgroup").map(str::to_owned),
            share: part / all,
            of: spec.of.clone(),
        })
        .filter(|c| c.share >= SMALLEST_SHARE)
        .collect();
    culprits.sort_by(|a, b| b.share.total_cmp(&a.share));
    culprits
}

fn action(spec: &ActionSpec, stage: &Stage<'_>) -> Option<Action> {
    if spec.when.as_ref().is_some_and(|when| when.truth(stage) != Truth::True) {
        return None;
    }
    Some(Action {
        kind: spec.kind,
        text: spec.text.prose(stage),
        set: spec.set.iter().filter_map(|(name, value)| Some((name.clone(), value.command(stage)?))).collect(),
        try_command: spec.command.as_ref().and_then(|c| c.command(stage)),
        expect: spec.expect.as_ref().map(|text| text.prose(stage)),
    })
}
