//! Variables of a rule's expressions and texts: signals of one entity and the host, and the names of subject and culprit.

use crate::blame::Blame;
use crate::cgroup::{in_group, unit};
use crate::expr::SignalLookup;
use crate::facts::Running;
use crate::signal::Entity;
use crate::template::quoted;
use std::collections::BTreeMap;
use whyslow_documents::diagnosis::{Culprit, Reading};

/// Variables of a rule for one entity; signals that its scope lacks come from the host.
pub struct RuleContext<'a> {
    entity: &'a Entity,
    host: &'a Entity,
    names: BTreeMap<&'static str, Reading>,
    running: Option<&'a Running>,
}

/// Maximum number of processes in a command to paste.
const MOST_PIDS: usize = 8;

/// Variables that every rule may use besides signals.
pub const NAMES: [&str; 16] = [
    "subject",
    "subject.pid",
    "subject.cgroup",
    "this",
    "this.pid",
    "this.cgroup",
    // 1 if the candidate belongs to the cgroup that is the subject.
    "this.within",
    "culprit",
    "culprit.pid",
    // Those of its processes that last long enough to be worth changing, separated by commas.
    "culprit.pids",
    // 0 if its processes are too short-lived for that; otherwise 1, also if no culprit is named.
    "culprit.lasts",
    // Mean number of threads or requests of other programs that wait for the same resource; unknown where that was not measured.
    "culprit.others_wait",
    // Share of its part whose priority is already low; 0 where that was not measured.
    "culprit.low_priority",
    // Share of its part that is buffered writes; 0 where that was not measured.
    "culprit.buffered",
    // Share of other programs' waiting that a nice value for the culprit can shorten: those in its control group.
    "culprit.nice_reach",
    // 1 if a nice value for the culprit counts within its session only (autogroups).
    "culprit.by_session",
];

/// Returns the signal whose usual value in the baseline has this name: `baseline.disk.alone_time`.
pub fn usual_signal(name: &str) -> Option<&str> {
    name.strip_prefix("baseline.")
}

impl<'a> RuleContext<'a> {
    /// Creates a context whose subject is `entity`.
    pub fn new(entity: &'a Entity, host: &'a Entity) -> Self {
        let mut names = BTreeMap::new();
        name(&mut names, ["subject", "subject.pid", "subject.cgroup"], entity);
        Self { entity, host, names, running: None }
    }

    /// Restricts commands to these processes.
    pub fn with_running(self, running: Option<&'a Running>) -> Self {
        Self { running, ..self }
    }

    /// Creates the context that weighs `candidate` as a culprit of this subject.
    pub fn weigh(&self, candidate: &'a Entity) -> Self {
        let mut names = self.names.clone();
        name(&mut names, ["this", "this.pid", "this.cgroup"], candidate);
        let within = in_group(candidate.cgroup.as_deref(), &self.entity.subject.name);
        names.insert("this.within", Reading::Number(f64::from(u8::from(within))));
        Self { entity: candidate, host: self.host, names, running: self.running }
    }

    /// Returns the PID of the subject, if it is a process.
    pub fn subject_pid(&self) -> Option<u32> {
        self.entity.subject.pid
    }

    /// Sets the variables of the first culprit.
    pub(crate) fn blame(&mut self, blame: &Blame) {
        let Blame { culprits, others_wait, low_priority, buffered, .. } = blame;
        if let Some(others_wait) = others_wait {
            self.names.insert("culprit.others_wait", Reading::Number(*others_wait));
        }
        self.names.insert("culprit.low_priority", Reading::Number(low_priority.unwrap_or(0.0)));
        self.names.insert("culprit.buffered", Reading::Number(buffered.unwrap_or(0.0)));
        self.names.insert("culprit.nice_reach", Reading::Number(blame.nice.share));
        self.names.insert("culprit.by_session", Reading::Number(f64::from(u8::from(blame.nice.by_session))));
        let lasting = |first: &Culprit| match self.running {
            Some(running) => running.lasting(first.processes()),
            None => first.processes().collect(),
        };
        let pids = culprits.first().map(lasting).unwrap_or_default();
        let lasts = culprits.first().is_none_or(|first| first.pid.is_none() || !pids.is_empty());
        self.names.insert("culprit.lasts", Reading::Number(f64::from(u8::from(lasts))));
        // A command stays within one control group: processes of the same name in other groups may belong to another program.
        let pids: Vec<u32> = pids.into_iter().filter(|pid| blame.together.contains(pid)).collect();
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
            if (1..=MOST_PIDS).contains(&pids.len()) {
                let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
                self.names.insert("culprit.pids", Reading::Text(pids.join(",")));
            }
        }
    }

    /// Returns the prefix of a command that must run in the subject's network namespace: empty in the observer's own; `None` if
    /// that namespace can be entered neither by name nor through a process.
    pub(crate) fn in_its_namespace(&self) -> Option<String> {
        let subject = &self.entity.subject;
        match (subject.netns.as_deref(), subject.pid) {
            (None, _) => Some(String::new()),
            (Some(name), _) if !name.starts_with("net:[") => Some(format!("ip netns exec {} ", quoted(name))),
            (Some(_), Some(pid)) => Some(format!("nsenter --target {pid} --net ")),
            (Some(_), None) => None,
        }
    }

    /// Returns true if the subject is in the observer's network namespace.
    pub(crate) fn is_in_own_namespace(&self) -> bool {
        self.entity.subject.netns.is_none()
    }

    /// Returns the program that an action is about, and its unit: both outlive its processes.
    pub fn whereabouts(&self, culprits: &[Culprit]) -> String {
        let subject = &self.entity.subject;
        let (name, cgroup) = match culprits.first() {
            Some(culprit) => (&culprit.name, culprit.cgroup.as_deref()),
            None => (&subject.name, self.entity.deepest_cgroup()),
        };
        match cgroup.and_then(unit) {
            Some(unit) => format!("{name} in unit {unit}"),
            None => name.clone(),
        }
    }

    /// Returns the value of a signal or name.
    pub fn reading(&self, name: &str) -> Option<&Reading> {
        if let Some(reading) = self.names.get(name) {
            return Some(reading);
        }
        if let Some(signal) = usual_signal(name) {
            return self.entity.usual.get(signal).or_else(|| self.host.usual.get(signal));
        }
        match self.entity.signals.iter().position(|signal| signal.name == name) {
            Some(at) => self.entity.values.get(at)?.as_ref(),
            None => self.host.reading(name),
        }
    }

    /// Like [`reading`](Self::reading), for a command, which can only name processes that still run.
    pub fn reading_in_command(&self, name: &str) -> Option<&Reading> {
        let reading = self.reading(name)?;
        let Some(running) = self.running else { return Some(reading) };
        match (name, reading) {
            ("subject.pid" | "this.pid" | "culprit.pid", Reading::Number(pid)) => {
                running.has(*pid as u32).then_some(reading)
            }
            ("culprit.pids", _) => (!running.is_past).then_some(reading),
            _ => Some(reading),
        }
    }

    /// Returns the unit of a signal; empty if it has none.
    pub fn unit(&self, name: &str) -> &'static str {
        let name = usual_signal(name).unwrap_or(name);
        let mut signals = self.entity.signals.iter().chain(self.host.signals);
        signals.find(|signal| signal.name == name).map_or("", |signal| signal.unit)
    }
}

impl SignalLookup for RuleContext<'_> {
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
