//! Judges counts since boot: the same rules on the mean of all the time since boot, with less confidence.
//!
//! A mean over days dilutes what happens now, and hides when it happened. So a finding from it is a suspicion, unless its basis
//! is extreme; it states that it is since boot; and where readings from an interval decide a rule, they win.

use crate::facts::Facts;
use crate::judge::{self, Judged, judge_where};
use crate::rule::Rule;
use crate::rule_context::RuleContext;
use crate::signal::Entity;
use std::collections::{BTreeMap, VecDeque};
use whyslow_documents::diagnosis::{BlindSpot, Confidence, Evidence, Finding, Subject, SubjectFigures};
use whyslow_model::since_boot::UnknownTime;
use whyslow_model::window::Window;

/// Two assumptions for an unknown time: results that are equal under both do not depend on it. They are extreme, so that a value
/// that is limited to 1, or compared with a threshold, differs.
const UNKNOWN: [UnknownTime; 2] = [UnknownTime { seconds: 0.001, times: 1 }, UnknownTime { seconds: 1e9, times: 3 }];
/// Maximum relative difference of two results that count as equal.
const SAME: f64 = 1e-6;

/// Returns everything that counts since boot show, besides what is known of `now`. Returns `None` if nothing was read only once.
pub(crate) fn facts(now: &Window) -> Option<Facts> {
    let totals = now.totals();
    if totals.is_empty() {
        return None;
    }
    let [mut facts, other] = UNKNOWN.map(|unknown| Facts::from_window(&totals.window(now, unknown)));
    keep_agreed(&mut facts.host, &other.host);
    for (scope, entities) in &mut facts.entities {
        // Several entities of a subject, such as drops for several reasons, are in the same order in both.
        let mut others: BTreeMap<&Subject, VecDeque<&Entity>> = BTreeMap::new();
        other.entities(*scope).iter().for_each(|e| others.entry(&e.subject).or_default().push_back(e));
        entities.retain_mut(|entity| {
            let other = others.get_mut(&entity.subject).and_then(VecDeque::pop_front);
            if let Some(other) = other {
                keep_agreed(entity, other);
            }
            other.is_some()
        });
    }
    Some(facts)
}

/// Drops the values that depend on the assumption for an unknown time.
fn keep_agreed(entity: &mut Entity, other: &Entity) {
    use whyslow_documents::diagnosis::Reading::{Number, Text};
    for (value, other) in entity.values.iter_mut().zip(&other.values) {
        let agrees = match (&*value, other) {
            (Some(Number(a)), Some(Number(b))) => (a - b).abs() <= SAME * a.abs().max(b.abs()),
            (Some(Text(a)), Some(Text(b))) => a == b,
            _ => false,
        };
        if !agrees {
            *value = None;
        }
    }
}

/// Applies the rules to the time since boot, as far as `now` does not decide them. Rules for intervals are worth less there than
/// rules for counts since boot, so that what both find is compared after that.
pub(crate) fn judge(rules: &[Rule], facts: &Facts, now: &Facts) -> Vec<Judged> {
    let [mut found, of_interval_rules] = [true, false].map(|is_since_boot| {
        let rules = rules.iter().filter(|rule| rule.since_boot == is_since_boot);
        let (judged, _) = judge_where(rules, facts, |rule, entity| !is_decided(rule, entity, now));
        judged.into_iter().map(|judged| diluted(judged, now)).collect::<Vec<_>>()
    });
    judge::add(&mut found, of_interval_rules);
    found
}

/// Returns true if a rule is known to hold or not to hold now.
fn is_decided(rule: &Rule, entity: &Entity, now: &Facts) -> bool {
    let same = now.entities(rule.scope).iter().find(|same| same.subject == entity.subject);
    same.is_some_and(|same| rule.when.is_known(&RuleContext::new(same, &now.host)))
}

/// Converts a finding to one about the time since boot.
fn diluted(judged: Judged, now: &Facts) -> Judged {
    let beginning = beginning(&judged.finding);
    let finding = judged.finding;
    let is_own_rule = judged.is_since_boot_rule;
    let summary = match (is_own_rule, judged.measures_time) {
        (true, _) => finding.summary.clone(),
        (false, true) => format!("On average {beginning}, {}", continued(&finding.summary)),
        (false, false) => format!("At some time {beginning}, {}", continued(&finding.summary)),
    };
    let confidence = match finding.confidence {
        // An event that cost no measured time may have happened long ago.
        Confidence::High if is_own_rule || judged.measures_time => Confidence::Medium,
        Confidence::Medium if is_own_rule => Confidence::Medium,
        _ => Confidence::Low,
    };
    let is_level = |evidence: &Evidence| is_known(now, &finding, &evidence.metric);
    let dated = |evidence: Evidence| if is_level(&evidence) { evidence } else { since(evidence, beginning) };
    let evidence = finding.evidence.iter().cloned().map(dated).collect();
    Judged { finding: Finding { summary, confidence, evidence, since: None, ..finding }, is_since_boot: true, ..judged }
}

/// Returns when the counts of a finding's subject begin, in words.
fn beginning(finding: &Finding) -> &'static str {
    match finding.id.split('.').next() {
        Some("nfs") => "since the mount",
        _ if finding.subject.kind == "connection" => "since it was opened",
        _ if finding.subject.kind == "cgroup" => "since it was created",
        _ => "since boot",
    }
}

/// Returns true if this number of a finding's subject, or of the machine, is known now.
fn is_known(now: &Facts, finding: &Finding, metric: &str) -> bool {
    let all = now.entities.values().flatten().filter(|e| e.subject == finding.subject || e.subject.kind == "host");
    all.into_iter().any(|entity| entity.reading(metric).is_some())
}

/// Qualifier of the formulas of numbers that only the time since boot shows.
pub(crate) const SINCE_COUNTING_BEGAN: &str = "since counting began";

/// Adds to the formula of a number when it was counted.
pub(crate) fn since(evidence: Evidence, beginning: &str) -> Evidence {
    let how = format!("{}, {beginning}", evidence.how);
    Evidence { how, ..evidence }
}

/// Converts a sentence to continue after a comma: names and abbreviations keep their capitals.
fn continued(sentence: &str) -> String {
    let mut letters = sentence.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if first.is_uppercase() && (second.is_lowercase() || second == ' ') => {
            format!("{}{}", first.to_lowercase(), &sentence[first.len_utf8()..])
        }
        _ => sentence.to_owned(),
    }
}

/// Adds what only the time since boot shows to the figures of each entity.
pub(crate) fn add_figures(figures: &mut Vec<SubjectFigures>, since_boot: Vec<SubjectFigures>) {
    for mut more in since_boot {
        let own = figures.iter_mut().find(|own| own.subject == more.subject);
        let is_new =
            |evidence: &Evidence| !own.iter().any(|own| own.values.iter().any(|v| v.metric == evidence.metric));
        more.values.retain(is_new);
        let values = more.values.into_iter().map(|evidence| since(evidence, SINCE_COUNTING_BEGAN));
        match own {
            Some(own) => own.values.extend(values),
            None => figures.push(SubjectFigures { subject: more.subject, values: values.collect() }),
        }
    }
}

/// Returns what counts since boot do not show.
pub(crate) fn blind_spot() -> BlindSpot {
    BlindSpot {
        what: "whether what was counted since boot still happens".into(),
        why: "means since boot hide short problems, and when they were".into(),
        remedy:
            "capture it twice, a minute apart, with the time before each (date), or with an interval (iostat -x 1 10)"
                .into(),
    }
}
