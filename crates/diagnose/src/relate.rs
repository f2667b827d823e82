//! Causes before effects.

use crate::judge::{Judged, weight};
use crate::signal::in_group;
use std::collections::BTreeMap;
use whyslow_model::diagnosis::{Finding, Subject};
use whyslow_model::topology::Topology;

/// Links effects to their causes and puts root causes first, by the time they cost, each effect after its cause.
pub fn relate(mut judged: Vec<Judged>, topology: &Topology) -> Vec<Finding> {
    // Of two that weigh the same, the one that explains more is nearer to the root.
    judged.sort_by(|a, b| {
        weight(&b.finding).total_cmp(&weight(&a.finding)).then_with(|| b.explains.len().cmp(&a.explains.len()))
    });
    let mut cause_of: BTreeMap<usize, usize> = BTreeMap::new();
    for cause in 0..judged.len() {
        for effect in 0..judged.len() {
            let explained = cause != effect
                && !cause_of.contains_key(&effect)
                && judged[cause].explains.contains(&judged[effect].finding.id)
                && !descends(&cause_of, cause, effect)
                && (judged[cause].explains_all || related(&judged[cause], &judged[effect], topology))
                && accounts_for(&judged[cause].finding, &judged[effect].finding);
            if explained {
                cause_of.insert(effect, cause);
            }
        }
    }
    let keys: Vec<String> = judged.iter().map(|j| j.finding.key()).collect();
    for (effect, cause) in &cause_of {
        judged[*effect].finding.explained_by = Some(keys[*cause].clone());
        judged[*cause].finding.explains.push(keys[*effect].clone());
    }
    let (roots, effects): (Vec<_>, Vec<_>) =
        judged.into_iter().map(|j| j.finding).partition(|f| f.explained_by.is_none());
    roots.into_iter().chain(effects).collect()
}

/// Whether `node` is an effect of `ancestor`, directly or through others.
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

/// Whether the two can have to do with each other: the same thing, devices on one another, a process and what it uses,
/// a group and its members, or the machine as a whole.
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

/// Whether the part explains the whole, where both are the same cause (a connection that loses packets, and the machine's
/// connections in sum): not when it is the lesser part of it.
fn accounts_for(cause: &Finding, effect: &Finding) -> bool {
    cause.id != effect.id || cause.impact >= 0.5 * effect.impact
}

fn on_one_another(a: &Subject, b: &Subject, topology: &Topology) -> bool {
    let device = |s: &Subject| ["device", "partition", "array"].contains(&s.kind.as_str());
    device(a)
        && device(b)
        && (a.name == b.name || topology.rests_on(&a.name, &b.name) || topology.rests_on(&b.name, &a.name))
}

/// Whether `of` goes by the subject's name too.
fn known_as(of: &Judged, subject: &Subject) -> bool {
    of.aliases.contains(&subject.name)
}

/// Whether `b` is, or is used by, a process that `a` is about.
fn touches(a: &Finding, b: &Finding) -> bool {
    let of = |f: &Finding| -> Vec<u32> {
        f.subject.pid.into_iter().chain(f.culprits.iter().filter_map(|c| c.pid)).collect()
    };
    let named: Vec<&str> = a.culprits.iter().map(|c| c.name.as_str()).collect();
    let pids = of(a);
    of(b).iter().any(|pid| pids.contains(pid)) || (b.subject.pid.is_none() && named.contains(&b.subject.name.as_str()))
}

/// Whether `member`, or who is to blame for it, is in the control group that `group` is about.
fn within(group: &Judged, member: &Judged) -> bool {
    let subject = &group.finding.subject;
    let inside = |cgroups: Option<&str>| in_group(cgroups, &subject.name);
    subject.kind == "cgroup"
        && (inside(member.cgroup.as_deref()) || member.finding.culprits.iter().any(|c| inside(c.cgroup.as_deref())))
}
