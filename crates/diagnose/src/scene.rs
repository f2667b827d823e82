//! What a rule's expressions see: the signals of one entity, those of the host, and the names of who is judged.

use crate::expr::Scene;
use crate::signal::{Entity, Scope, in_group};
use std::collections::BTreeMap;
use whyslow_model::diagnosis::{Culprit, Reading};

/// An entity on the stage, with the host behind it.
pub struct Stage<'a> {
    scope: Scope,
    entity: &'a Entity,
    host: &'a Entity,
    names: BTreeMap<&'static str, Reading>,
}

/// A command for more processes than this is no longer one to paste.
const MOST_PIDS: usize = 8;

/// The names every rule may use beside signals, with what they stand for.
pub const NAMES: [&str; 10] = [
    "subject",
    "subject.pid",
    "subject.cgroup",
    "this",
    "this.pid",
    "this.cgroup",
    // 1 where the candidate belongs to the control group that is the subject.
    "this.within",
    "culprit",
    "culprit.pid",
    // All its processes, separated by commas.
    "culprit.pids",
];

impl<'a> Stage<'a> {
    /// A scene in which `entity` is the subject.
    pub fn new(scope: Scope, entity: &'a Entity, host: &'a Entity) -> Self {
        let mut names = BTreeMap::new();
        name(&mut names, ["subject", "subject.pid", "subject.cgroup"], entity);
        Self { scope, entity, host, names }
    }

    /// The scene in which `candidate` is weighed as a culprit of this scene's subject.
    pub fn weigh(&self, scope: Scope, candidate: &'a Entity) -> Self {
        let mut names = self.names.clone();
        name(&mut names, ["this", "this.pid", "this.cgroup"], candidate);
        let within = in_group(candidate.cgroup.as_deref(), &self.entity.subject.name);
        names.insert("this.within", Reading::Number(f64::from(u8::from(within))));
        Self { scope, entity: candidate, host: self.host, names }
    }

    /// The process that is the subject, where it is one.
    pub fn subject_pid(&self) -> Option<u32> {
        self.entity.subject.pid
    }

    /// Makes the first culprit known to the texts.
    pub fn blame(&mut self, culprits: &[Culprit]) {
        let Some(first) = culprits.first() else {
            self.names.insert("culprit", Reading::Text("an unidentified process".into()));
            return;
        };
        let label = match first.pid {
            Some(_) if first.count() > 1 => format!("{} (×{})", first.name, first.count()),
            Some(pid) => format!("{} ({pid})", first.name),
            None => first.name.clone(),
        };
        self.names.insert("culprit", Reading::Text(label));
        if let Some(pid) = first.pid {
            self.names.insert("culprit.pid", Reading::Number(f64::from(pid)));
            let pids: Vec<String> = first.processes().map(|pid| pid.to_string()).collect();
            if pids.len() <= MOST_PIDS {
                self.names.insert("culprit.pids", Reading::Text(pids.join(",")));
            }
        }
    }

    /// The value of a signal or name.
    pub fn reading(&self, name: &str) -> Option<&Reading> {
        if let Some(reading) = self.names.get(name) {
            return Some(reading);
        }
        let find = |scope: Scope, entity: &'a Entity| {
            let at = scope.signals().iter().position(|s| s.name == name)?;
            Some(entity.values.get(at)?.as_ref())
        };
        find(self.scope, self.entity).or_else(|| find(Scope::Host, self.host)).flatten()
    }

    /// The unit of a signal; empty where there is none.
    pub fn unit(&self, name: &str) -> &'static str {
        let of = |scope: Scope| scope.signals().iter().find(|s| s.name == name);
        of(self.scope).or_else(|| of(Scope::Host)).map_or("", |s| s.unit)
    }
}

impl Scene for Stage<'_> {
    fn signal(&self, name: &str) -> Option<&Reading> {
        self.reading(name)
    }
}

fn name(names: &mut BTreeMap<&'static str, Reading>, keys: [&'static str; 3], entity: &Entity) {
    let [own, pid, cgroup] = keys;
    names.insert(own, Reading::Text(entity.subject.name.clone()));
    if let Some(number) = entity.subject.pid {
        names.insert(pid, Reading::Number(f64::from(number)));
    }
    if let Some(group) = entity.deepest_cgroup() {
        names.insert(cgroup, Reading::Text(group.to_owned()));
    }
}
