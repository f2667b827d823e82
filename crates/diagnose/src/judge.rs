//! Applies the rules: a rule that holds becomes a finding; its look-alikes are ruled out.

use crate::blame::{Blame, blame};
use crate::expr::Expr;
use crate::facts::Facts;
use crate::rule::{ActionSpec, Rule, find};
use crate::rule_context::{RuleContext, usual_signal};
use crate::scope::Scope;
use crate::signal::Entity;
use std::collections::{BTreeMap, BTreeSet};
use whyslow_documents::diagnosis::{
    Action, ActionKind, Basis, Confidence, Culprit, Evidence, Finding, Gain, RuledOut, Since, Subject, Unattributed,
};

/// Maximum number of findings reported for one rule.
const MOST_OF_ONE_RULE: usize = 4;
/// Severity of a finding if neither the time it cost nor its severity can be computed: enough for it to be reported, not enough
/// to precede measured findings.
const UNKNOWN: f64 = 0.1;

/// A finding with what is needed to relate it to others.
pub struct Judged {
    /// The finding.
    pub finding: Finding,
    /// Ids that it explains.
    pub explains: Vec<String>,
    /// Whether it explains them on any subject.
    pub explains_all: bool,
    /// Share of what it explains, by id, where the rule computes one.
    pub shares: BTreeMap<String, f64>,
    /// Control groups of its subject, one per line.
    pub cgroup: Option<String>,
    /// Other names of its subject.
    pub aliases: Vec<String>,
    /// Whether it is about the time since boot, and not about now.
    pub is_since_boot: bool,
    /// Whether its rule is for counts since boot only.
    pub is_since_boot_rule: bool,
    /// Whether its summary is the one without a culprit.
    pub is_unattributed: bool,
    /// Whether its rule measures time, as far as the window allows.
    pub measures_time: bool,
}

/// Judges every rule on every entity of its scope.
pub fn judge(rules: &[Rule], facts: &Facts) -> (Vec<Judged>, Vec<RuledOut>) {
    judge_where(rules, facts, |rule, _| !rule.since_boot)
}

/// Judges every rule on those entities of its scope on which it `applies`.
pub fn judge_where<'r>(
    rules: impl IntoIterator<Item = &'r Rule>,
    facts: &Facts,
    applies: impl Fn(&Rule, &Entity) -> bool,
) -> (Vec<Judged>, Vec<RuledOut>) {
    let mut found = Vec::new();
    let mut left_out = Vec::new();
    let mut ruled_out = Vec::new();
    for rule in rules {
        let mut of_rule: Vec<Judged> = Vec::new();
        let is_observer = |entity: &Entity| facts.observer.is_some() && entity.subject.pid == facts.observer;
        for entity in facts.entities(rule.scope).iter().filter(|e| !e.idle && !is_observer(e)) {
            let mut context = RuleContext::new(entity, &facts.host).with_running(facts.running.as_ref());
            if !rule.when.holds(&context) || !applies(rule, entity) {
                continue;
            }
            let alike =
                rule.look_alikes.iter().find(|l| l.unless.as_ref().is_some_and(|unless| unless.holds(&context)));
            match alike {
                Some(alike) => ruled_out.extend(
                    alike.text.prose(&context).map(|because| RuledOut { id: ruled_out_key(rule, entity), because }),
                ),
                None => of_rule.push(finding(rule, entity, &mut context, facts)),
            }
        }
        of_rule.sort_by(|a, b| weight(&b.finding).total_cmp(&weight(&a.finding)));
        left_out.extend(of_rule.drain(of_rule.len().min(MOST_OF_ONE_RULE)..).map(|judged| judged.finding));
        add(&mut found, of_rule);
    }
    count_left_out(&mut found, &left_out);
    (found, ruled_out)
}

/// Counts the findings left out, each once, however many rules of one id found it. Adds each to the heaviest finding of the same
/// id, preferably in the same program.
fn count_left_out(found: &mut [Judged], left_out: &[Finding]) {
    let mut counted: BTreeSet<String> = found.iter().map(|judged| judged.finding.key()).collect();
    for left in left_out.iter().filter(|left| counted.insert(left.key())) {
        let is_of_program =
            |own: &Finding| (&own.subject.kind, &own.subject.name) == (&left.subject.kind, &left.subject.name);
        let of_id = || (0..found.len()).filter(|&at| found[at].finding.id == left.id);
        let heaviest = |a: &usize, b: &usize| weight(&found[*a].finding).total_cmp(&weight(&found[*b].finding));
        let of_program = of_id().filter(|&at| is_of_program(&found[at].finding)).max_by(heaviest);
        if let Some(at) = of_program.or_else(|| of_id().max_by(heaviest)) {
            found[at].finding.more += 1;
        }
    }
}

/// Returns the key of the finding that it would have been, without the process.
fn ruled_out_key(rule: &Rule, entity: &Entity) -> String {
    Subject { pid: None, tid: None, ..entity.subject.clone() }.key_of(&rule.id)
}

/// Adds what one rule found. If another rule of the same id found the same on the same entity, the finding of larger weight
/// stays.
pub(crate) fn add(found: &mut Vec<Judged>, of_rule: Vec<Judged>) {
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

/// Returns true if it is more than a suspicion.
pub fn is_certain(finding: &Finding) -> bool {
    finding.confidence == Confidence::High || finding.is_felt()
}

/// Returns a finding's rank: the time lost, scaled by confidence and by the share of the window in which it held. For a lower
/// bound, uses the middle between it and all of the time.
pub fn weight(finding: &Finding) -> f64 {
    let lost = if finding.impact_is == Basis::AtLeast { (finding.impact + 1.0) / 2.0 } else { finding.impact };
    let share = finding.during.as_ref().map_or(1.0, |during| during.share);
    lost * share
        * match finding.confidence {
            Confidence::High => 1.0,
            Confidence::Medium => 0.7,
            Confidence::Low => 0.2,
        }
}

fn finding(rule: &Rule, entity: &Entity, context: &mut RuleContext<'_>, facts: &Facts) -> Judged {
    let holds = |expr: &Option<Expr>, context: &RuleContext<'_>| expr.as_ref().is_some_and(|expr| expr.holds(context));
    let confidence = if holds(&rule.high, context) {
        Confidence::High
    } else if holds(&rule.medium, context) {
        Confidence::Medium
    } else {
        Confidence::Low
    };
    let blame = blame(rule, context, facts);
    context.blame(&blame);
    let Blame { culprits, unattributed, .. } = blame;
    let without_name = rule.summary_unattributed.as_ref().filter(|_| culprits.is_empty());
    let is_unattributed = without_name.is_some();
    let summary = without_name.unwrap_or(&rule.summary);
    let (impact, impact_is) = impact(rule, context);
    let finding = Finding {
        id: rule.id.clone(),
        host: None,
        subject: if rule.host_is_subject { Subject::host() } else { entity.subject.clone() },
        actions: actions(rule, context, facts, &culprits, unattributed.as_ref()),
        culprits,
        unattributed,
        more: 0,
        during: None,
        impact,
        impact_is,
        how_bad: rule.how_bad.as_ref().filter(|_| impact_is != Basis::NotMeasured).and_then(|text| text.known(context)),
        since: since(rule, context, facts, impact),
        confidence,
        summary: summary.prose(context).unwrap_or_else(|| rule.means.clone()),
        evidence: evidence(rule, entity, context, facts),
        explains: Vec::new(),
        explained_by: None,
        confirmed_by: Vec::new(),
    };
    Judged {
        finding,
        is_unattributed,
        explains: rule.explains.clone(),
        explains_all: rule.explains_all,
        shares: rule.accounts_for.iter().filter_map(|(id, e)| Some((id.clone(), e.number(context)?))).collect(),
        cgroup: entity.cgroup.clone(),
        aliases: entity.aliases.clone(),
        is_since_boot: false,
        is_since_boot_rule: rule.since_boot,
        measures_time: rule.impact.is_some(),
    }
}

/// Returns the time lost, and the basis of that number.
fn impact(rule: &Rule, context: &RuleContext<'_>) -> (f64, Basis) {
    let number = |expr: &Option<Expr>| expr.as_ref().and_then(|e| e.number(context)).map(|n| n.clamp(0.0, 1.0));
    match number(&rule.impact) {
        Some(lost) if rule.is_at_least(context) => (lost, Basis::AtLeast),
        Some(lost) => (lost, Basis::Measured),
        None => (number(&rule.severity).unwrap_or(UNKNOWN), Basis::NotMeasured),
    }
}

/// Returns how long it has lasted: by pressure, or as the rule computes it.
fn since(rule: &Rule, context: &RuleContext<'_>, facts: &Facts, impact: f64) -> Option<Since> {
    if let Some(resource) = rule.pressure {
        return facts.history.since(resource, impact);
    }
    let lasted = rule.lasted.as_ref()?;
    let source = lasted.names().iter().find_map(|name| find(name, &[rule.scope, Scope::Host]))?.source;
    Some(facts.history.lasted(lasted.number(context)?, source))
}

fn evidence(rule: &Rule, entity: &Entity, context: &RuleContext<'_>, facts: &Facts) -> Vec<Evidence> {
    let signals = [rule.scope, Scope::Host].into_iter().flat_map(Scope::signals);
    rule.evidence
        .iter()
        .filter_map(|spec| {
            let name = spec.signal.get_ref();
            let usual = usual_signal(name);
            let signal = signals.clone().find(|s| s.name == usual.unwrap_or(name))?;
            let evidence = Evidence {
                metric: name.to_owned(),
                value: context.reading(name)?.clone(),
                unit: signal.unit.to_owned(),
                expected: spec.expected.clone(),
                source: facts.source_of(signal, entity),
                how: facts.sources.formula(signal.how, signal.source),
            };
            let of_baseline =
                |evidence| Evidence { source: "default baseline".into(), how: "median".into(), ..evidence };
            Some(if usual.is_some() { of_baseline(evidence) } else { evidence })
        })
        .collect()
}

/// Returns the recommended actions. Without a culprit, replaces actions that name it by one that shows how to find it.
fn actions(
    rule: &Rule,
    context: &RuleContext<'_>,
    facts: &Facts,
    culprits: &[Culprit],
    gap: Option<&Unattributed>,
) -> Vec<Action> {
    let holds = |spec: &&ActionSpec| spec.when.as_ref().is_none_or(|when| when.holds(context));
    let is_nameless = culprits.is_empty() && rule.names_culprit();
    let specs = rule.actions.iter().filter(|spec| !(culprits.is_empty() && spec.names_culprit()));
    let identify = is_nameless.then(|| identify(&rule.id, facts, gap));
    let is_past = facts.running.as_ref().is_some_and(|running| running.is_past);
    let mut actions: Vec<Action> = Vec::new();
    for spec in specs.filter(holds) {
        let Some(mut action) = action(spec, context, facts) else { continue };
        // PIDs of a recording may have been reused since: a command could change the wrong process.
        if is_past && spec.names_process() {
            let process = context.whereabouts(culprits);
            action.text =
                format!("Check that {process} is still running, as this happened in the past. {}", action.text);
        }
        actions.push(action);
    }
    actions.into_iter().chain(identify).collect()
}

/// Returns how to identify the process: run whyslow with the privilege it lacked, or where it was not running at all; otherwise
/// the tool for the resource that the rule's id begins with.
fn identify(id: &str, facts: &Facts, gap: Option<&Unattributed>) -> Action {
    let (does, tool) = match id.split('.').next() {
        Some("cpu") => ("uses the CPU", "pidstat -u 1"),
        Some("disk" | "fs") => ("issues the I/O", "pidstat -d 1"),
        Some("mem") => ("uses the memory", "pidstat -r 1"),
        Some("net") => ("owns the socket", "ss -tuanp"),
        _ => ("it is", "pidstat -u -d -r 1"),
    };
    let remedy = gap.map(|gap| gap.remedy.as_str()).filter(|remedy| !remedy.is_empty());
    let is_live = facts.running.as_ref().map(|running| !running.is_past);
    let (text, command) = match (remedy, is_live) {
        (Some(remedy), Some(true)) if remedy.starts_with("run as root") => (remedy.to_owned(), "sudo whyslow"),
        (Some(remedy), _) => (remedy.to_owned(), ""),
        (None, None) => (String::new(), "sudo whyslow"),
        (None, Some(_)) => (String::new(), tool),
    };
    let reason = if text.is_empty() { text } else { format!(": {text}") };
    Action {
        kind: ActionKind::Diagnostic,
        text: format!("Find which process {does}{reason}"),
        set: BTreeMap::new(),
        try_command: Some(command.to_owned()).filter(|command| !command.is_empty()),
        expect: None,
        gain: None,
    }
}

/// Returns the action, if its text can be filled in and it would change something. Leaves out a command that only prints a
/// kernel file already captured.
fn action(spec: &ActionSpec, context: &RuleContext<'_>, facts: &Facts) -> Option<Action> {
    let is_wanted = |command: &String| !command.strip_prefix("cat ").is_some_and(|path| facts.is_captured(path));
    let set = spec.settings(context, facts);
    if spec.is_in_force(set.as_ref()) {
        return None;
    }
    let set = set.unwrap_or_default();
    let gain = spec.gain.as_ref().and_then(|gain| gain.gain(context));
    let expected = || spec.expect.as_ref().and_then(|text| text.known(context));
    Some(Action {
        kind: spec.kind,
        text: spec.text.prose(context)?,
        try_command: spec.command_line(&set, gain.as_ref(), context).filter(is_wanted),
        set,
        expect: gain.as_ref().map(Gain::to_string).or_else(expected),
        gain,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(name: &str, pid: u32, impact: f64) -> Judged {
        let subject = Subject { pid: Some(pid), ..Subject::new("process", name) };
        let finding = Finding { id: "x.y".into(), subject, impact, confidence: Confidence::High, ..Finding::default() };
        Judged {
            finding,
            explains: vec![],
            explains_all: false,
            is_unattributed: false,
            shares: BTreeMap::new(),
            cgroup: None,
            aliases: vec![],
            is_since_boot: false,
            is_since_boot_rule: false,
            measures_time: true,
        }
    }

    #[test]
    fn what_is_left_out_is_counted_once_and_with_its_program() {
        let mut found: Vec<Judged> = (0..4).map(|n| judged("db", n, 0.9 - f64::from(n) / 10.0)).collect();
        found.push(judged("web", 10, 0.3));
        let left: Vec<Finding> = (4..8).map(|n| judged("db", n, 0.1).finding).collect();
        let web = judged("web", 11, 0.1).finding;
        let other = judged("cron", 12, 0.1).finding;
        // Another rule of the id left out the same finding, and one that was found.
        let again = [left.clone(), left, vec![web, other, judged("db", 3, 0.6).finding]].concat();
        count_left_out(&mut found, &again);
        let more: Vec<usize> = found.iter().map(|judged| judged.finding.more).collect();
        assert_eq!(more, [5, 0, 0, 0, 1], "with one of a program that is not listed");
    }
}
