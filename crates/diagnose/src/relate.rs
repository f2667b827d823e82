//! Links effects to their causes and orders findings.

use crate::cgroup::in_group;
use crate::judge::{Judged, is_certain, weight};
use std::collections::{BTreeMap, BTreeSet};
use whyslow_documents::diagnosis::{Basis, Confidence, Culprit, Finding, Subject};
use whyslow_model::topology::Topology;

/// Links effects to their causes. Sorts root causes first, by the time they cost, and each effect after its cause.
pub fn relate(mut judged: Vec<Judged>, topology: &Topology) -> Vec<Finding> {
    reinforce(&mut judged, topology);
    // Of two findings of equal weight, the one that explains more is nearer to the root.
    judged.sort_by(|a, b| {
        weight(&b.finding).total_cmp(&weight(&a.finding)).then_with(|| b.explains.len().cmp(&a.explains.len()))
    });
    let mut cause_of: BTreeMap<usize, usize> = BTreeMap::new();
    for cause in 0..judged.len() {
        for effect in 0..judged.len() {
            let explained = cause != effect
                && !cause_of.contains_key(&effect)
                && !descends(&cause_of, cause, effect)
                && can_explain(&judged[cause], &judged[effect], topology);
            if explained && !is_rather_effect(&judged[cause], &judged[effect], topology) {
                cause_of.insert(effect, cause);
            }
        }
    }
    let keys: Vec<String> = judged.iter().map(|j| j.finding.key()).collect();
    for (effect, cause) in &cause_of {
        judged[*effect].finding.explained_by = Some(keys[*cause].clone());
        judged[*cause].finding.explains.push(keys[*effect].clone());
    }
    // From the top of a stack down to its disks.
    for (effect, cause) in cause_of.iter().cycle().take(MOST_LAYERS * cause_of.len()) {
        name_users(*cause, *effect, &mut judged, topology);
    }
    let ranks: Vec<(bool, f64)> = (0..judged.len()).map(|node| rank(node, &judged, &cause_of)).collect();
    let ranked = judged.into_iter().map(|j| j.finding).zip(ranks);
    let (mut roots, effects): (Vec<_>, Vec<_>) = ranked.partition(|(finding, _)| finding.explained_by.is_none());
    roots.sort_by(|(_, a), (_, b)| b.0.cmp(&a.0).then_with(|| b.1.total_cmp(&a.1)));
    roots.into_iter().chain(effects).map(|(finding, _)| finding).collect()
}

/// Raises suspicions by a step of confidence where other suspicions, each from other evidence, are what the cause leads to: two of
/// them are no chance. What is certain stands by itself, and may have another cause.
fn reinforce(judged: &mut [Judged], topology: &Topology) {
    const LEAST: usize = 2;
    let is_suspicion = |node: &Judged| node.finding.confidence == Confidence::Low;
    let mut raised: Vec<(usize, Vec<String>)> = Vec::new();
    for (at, cause) in judged.iter().enumerate().filter(|(_, node)| is_suspicion(node)) {
        let mut seen: BTreeSet<&str> = metrics(&cause.finding).collect();
        let mut ids: BTreeSet<&str> = BTreeSet::new();
        let mut confirmed_by = Vec::new();
        for effect in judged.iter().filter(|effect| is_expected(cause, effect, topology)) {
            let is_independent = metrics(&effect.finding).all(|metric| !seen.contains(metric));
            if is_independent && ids.insert(&effect.finding.id) {
                seen.extend(metrics(&effect.finding));
                confirmed_by.push(effect.finding.key());
            }
        }
        if confirmed_by.len() >= LEAST {
            raised.push((at, confirmed_by));
        }
    }
    for (at, confirmed_by) in raised {
        let finding = &mut judged[at].finding;
        (finding.confidence, finding.confirmed_by) = (Confidence::Medium, confirmed_by);
    }
}

/// Returns true if `effect` is what `cause` leads to, by its rule and on a related subject.
fn is_expected(cause: &Judged, effect: &Judged, topology: &Topology) -> bool {
    cause.is_since_boot == effect.is_since_boot
        && effect.finding.confidence == Confidence::Low
        && cause.finding.id != effect.finding.id
        && cause.explains.contains(&effect.finding.id)
        && related(cause, effect, topology)
}

/// Returns the names of the numbers that a finding rests on.
fn metrics(finding: &Finding) -> impl Iterator<Item = &str> {
    finding.evidence.iter().map(|evidence| evidence.metric.as_str())
}

/// Copies the culprits of a device to the one below it, where the kernel does not attribute the requests of the lower one.
fn name_users(cause: usize, effect: usize, judged: &mut [Judged], topology: &Topology) {
    let (lower, upper) = (&judged[cause].finding, &judged[effect].finding);
    let is_below = topology.rests_on(&upper.subject.name, &lower.subject.name);
    if lower.culprits.is_empty() && !judged[cause].is_unattributed && !upper.culprits.is_empty() && is_below {
        let (mut culprits, mut unattributed) = (upper.culprits.clone(), upper.unattributed.clone());
        // Their shares refer to what the upper device did.
        let bases = culprits.iter_mut().map(|culprit| &mut culprit.of);
        for of in bases.chain(unattributed.iter_mut().map(|gap| &mut gap.of)).filter(|of| !of.contains(" on ")) {
            of.push_str(&format!(" on {}", upper.subject.name));
        }
        (judged[cause].finding.culprits, judged[cause].finding.unattributed) = (culprits, unattributed);
    }
}

/// Maximum number of layers; device stacks hardly have more.
const MOST_LAYERS: usize = 4;

/// Ranks a cause together with its effects: it weighs as much as the heaviest of them, so that an unrelated finding does not
/// come before the cause of something heavier. Certainty comes before weight: a suspicion, however heavy, does not come before a
/// certain cause.
fn rank(node: usize, judged: &[Judged], cause_of: &BTreeMap<usize, usize>) -> (bool, f64) {
    let tree = (0..judged.len()).filter(|&other| other == node || descends(cause_of, other, node));
    tree.map(|other| &judged[other].finding).fold((false, 0.0), |(certain, heaviest), finding| {
        (certain || is_certain(finding), f64::max(heaviest, weight(finding)))
    })
}

/// Returns true if `node` is an effect of `ancestor`, directly or through others.
fn descends(cause_of: &BTreeMap<usize, usize>, node: usize, ancestor: usize) -> bool {
    let mut at = node;
    while let Some(cause) = cause_of.get(&at) {
        if *cause == ancestor {
            return true;
        }
        at = *cause;
    }
    false
}

/// Returns true if `cause` explains `effect` by itself, whatever else is found. A mean since boot does not explain what happens
/// now.
fn can_explain(cause: &Judged, effect: &Judged, topology: &Topology) -> bool {
    cause.is_since_boot == effect.is_since_boot
        && cause.explains.contains(&effect.finding.id)
        && (cause.explains_all || related(cause, effect, topology))
        && is_large_enough(cause, &effect.finding)
}

/// Returns true if the supposed cause is on a device that rests on the effect's device, and the explanation also works the other
/// way round: a slow disk fills the queue of its array, and is no slower because of it.
fn is_rather_effect(cause: &Judged, effect: &Judged, topology: &Topology) -> bool {
    let (upper, lower) = (&cause.finding.subject.name, &effect.finding.subject.name);
    // If both findings have the same id, the lower one is the cause only if nothing else is below the upper device.
    let is_told_apart =
        || cause.finding.id != effect.finding.id || topology.below(upper).map(|name| &**name).eq([lower.as_str()]);
    topology.rests_on(upper, lower) && is_told_apart() && can_explain(effect, cause, topology)
}

/// Returns true if the two findings can be related: same entity, stacked devices, a process and what it uses, a group and its
/// members, or the machine as a whole.
fn related(cause: &Judged, effect: &Judged, topology: &Topology) -> bool {
    let (a, b) = (&cause.finding.subject, &effect.finding.subject);
    a == b
        || a.kind == "host"
        || b.kind == "host"
        || on_one_another(a, b, topology)
        || touches(&cause.finding, &effect.finding)
        || touches(&effect.finding, &cause.finding)
        || known_as(cause, &effect.finding.subject)
        || known_as(effect, &cause.finding.subject)
        || cause.aliases.iter().any(|name| effect.aliases.contains(name))
        || within(cause, effect)
        || within(effect, cause)
}

/// Minimum share of an effect that a cause must account for: without the cause, most of the effect would be gone.
const MOST: f64 = 0.5;

/// Returns true if the cause is large and certain enough to explain the effect.
///
/// - A low-confidence cause explains only low-confidence effects: otherwise it would hide what is certain.
/// - Where the rule says how to compute its share of the effect (`accounts_for`), that share decides.
/// - Otherwise two measured impacts are shares of the same window, and the cause needs half of the effect's.
/// - An impact that was not measured, or is only a lower bound, cannot be compared. What the kernel logged (a failing disk) has
///   no share of time, but is a cause nevertheless: there the rule and the subjects decide. Only two findings of one id, where one
///   is a part of the other, are compared by whatever numbers they have.
fn is_large_enough(cause: &Judged, effect: &Finding) -> bool {
    let Judged { finding, shares, .. } = cause;
    if finding.confidence == Confidence::Low && effect.confidence > Confidence::Low {
        return false;
    }
    if let Some(share) = shares.get(&effect.id) {
        return *share >= MOST;
    }
    let comparable = finding.impact_is == Basis::Measured && effect.impact_is == Basis::Measured;
    !(comparable || finding.id == effect.id) || finding.impact >= MOST * effect.impact
}

fn on_one_another(a: &Subject, b: &Subject, topology: &Topology) -> bool {
    let device = |s: &Subject| ["device", "partition", "array"].contains(&s.kind.as_str());
    device(a)
        && device(b)
        && (a.name == b.name || topology.rests_on(&a.name, &b.name) || topology.rests_on(&b.name, &a.name))
}

/// Returns true if the subject's name is an alias of `of`.
fn known_as(of: &Judged, subject: &Subject) -> bool {
    of.aliases.contains(&subject.name)
}

/// Returns true if the two findings share a process, as subject or culprit, or if `a` names the subject of `b` as a culprit.
fn touches(a: &Finding, b: &Finding) -> bool {
    let of = |f: &Finding| -> Vec<u32> {
        f.subject.pid.into_iter().chain(f.culprits.iter().flat_map(Culprit::processes)).collect()
    };
    let named: Vec<&str> = a.culprits.iter().map(|c| c.name.as_str()).collect();
    let pids = of(a);
    of(b).iter().any(|pid| pids.contains(pid)) || (b.subject.pid.is_none() && named.contains(&b.subject.name.as_str()))
}

/// Returns true if the subject of `member`, or one of its culprits, is in the control group that `group` is about.
fn within(group: &Judged, member: &Judged) -> bool {
    let subject = &group.finding.subject;
    let inside = |cgroups: Option<&str>| in_group(cgroups, &subject.name);
    subject.kind == "cgroup"
        && (inside(member.cgroup.as_deref()) || member.finding.culprits.iter().any(|c| inside(c.cgroup.as_deref())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_documents::diagnosis::{Evidence, Reading};

    fn judged(id: &str, impact: f64, confidence: Confidence, explains: &str) -> Judged {
        let finding = Finding { id: id.into(), subject: Subject::host(), impact, confidence, ..Finding::default() };
        Judged {
            finding,
            explains: vec![explains.into()],
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

    /// Returns the ids in order, effects in parentheses.
    fn order(judged: Vec<Judged>) -> Vec<String> {
        let name = |f: Finding| if f.explained_by.is_some() { format!("({})", f.id) } else { f.id };
        relate(judged, &Topology::default()).into_iter().map(name).collect()
    }

    fn effect() -> Judged {
        judged("effect", 0.92, Confidence::High, "")
    }

    #[test]
    fn a_cause_that_is_too_small_for_its_effect_explains_nothing() {
        let cause = |impact| judged("cause", impact, Confidence::High, "effect");
        assert_eq!(order(vec![cause(0.27), effect()]), ["effect", "cause"]);
        assert_eq!(order(vec![cause(0.6), effect()]), ["cause", "(effect)"]);
    }

    #[test]
    fn a_suspicion_does_not_explain_what_is_certain() {
        let suspicion = || judged("cause", 1.0, Confidence::Low, "effect");
        assert_eq!(order(vec![suspicion(), effect()]), ["effect", "cause"]);
        let unsure = Judged { finding: Finding { confidence: Confidence::Low, ..effect().finding }, ..effect() };
        assert_eq!(order(vec![suspicion(), unsure]), ["cause", "(effect)"]);
    }

    #[test]
    fn suspicions_from_independent_evidence_confirm_their_common_cause() {
        let low = |id: &str, metric: &str, explains: &[&str]| {
            let mut judged = judged(id, 0.3, Confidence::Low, "");
            let [unit, expected, source, how] = ["ratio", "", "", ""].map(str::to_owned);
            let value = Reading::Number(1.0);
            judged.finding.evidence.push(Evidence { metric: metric.into(), value, unit, expected, source, how });
            judged.explains = explains.iter().map(|id| (*id).to_owned()).collect();
            judged
        };
        let confirmed = |effects: Vec<Judged>| {
            let cause = low("cause", "a", &["one", "two"]);
            let all = relate(std::iter::once(cause).chain(effects).collect(), &Topology::default());
            let cause = all.into_iter().find(|finding| finding.id == "cause").unwrap();
            (cause.confidence, cause.confirmed_by.len())
        };
        assert_eq!(confirmed(vec![low("one", "b", &[]), low("two", "c", &[])]), (Confidence::Medium, 2));
        assert_eq!(confirmed(vec![low("one", "b", &[])]), (Confidence::Low, 0));
        assert_eq!(
            confirmed(vec![low("one", "b", &[]), low("two", "b", &[])]),
            (Confidence::Low, 0),
            "one number twice"
        );
        assert_eq!(confirmed(vec![low("one", "b", &[]), low("other", "c", &[])]), (Confidence::Low, 0));
    }

    #[test]
    fn the_share_a_rule_computes_decides_over_the_impacts() {
        let with = |share| Judged {
            shares: BTreeMap::from([("effect".to_owned(), share)]),
            ..judged("cause", 0.9, Confidence::High, "effect")
        };
        assert_eq!(order(vec![with(0.1), effect()]), ["effect", "cause"]);
        assert_eq!(order(vec![with(0.8), effect()]), ["cause", "(effect)"]);
    }

    #[test]
    fn a_cause_ranks_with_the_heaviest_of_its_effects() {
        let mut logged = judged("logged", 0.3, Confidence::High, "effect");
        logged.finding.impact_is = Basis::NotMeasured;
        let unrelated = judged("unrelated", 0.5, Confidence::High, "");
        assert_eq!(order(vec![effect(), logged, unrelated]), ["logged", "unrelated", "(effect)"]);
    }

    #[test]
    fn a_suspicion_never_comes_before_what_is_certain() {
        let suspicion = || judged("suspicion", 1.0, Confidence::Low, "");
        let others = [(0.02, Confidence::High), (0.1, Confidence::Medium)];
        for (impact, confidence) in others {
            let slight = judged("slight", impact, confidence, "");
            assert_eq!(order(vec![suspicion(), slight]), ["slight", "suspicion"]);
        }
    }

    #[test]
    fn what_was_not_measured_is_not_compared() {
        for basis in [Basis::NotMeasured, Basis::AtLeast] {
            let mut logged = judged("cause", 0.1, Confidence::High, "effect");
            logged.finding.impact_is = basis;
            assert_eq!(order(vec![effect(), logged]), ["cause", "(effect)"]);
        }
    }
}
