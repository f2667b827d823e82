//! Expected findings of a trial.

use crate::cgroup::Cgroup;
use crate::testbed::PREFIX;
use std::fmt;
use std::path::Path;
use whyslow_documents::diagnosis::{Culprit, GroupName, InterferencePair, Subject};

/// Subject and culprit of the finding that must come first. If there are several, any of them is acceptable.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    pub subjects: Vec<EntityPattern>,
    /// Expected culprits; empty if the subject itself is the culprit.
    pub culprits: Vec<EntityPattern>,
    /// Independent causes that must be found as well; any of them may come first.
    pub beside: Vec<(&'static str, Self)>,
    /// Findings that must appear as effects of the first.
    pub effects: Vec<(&'static str, Self)>,
    /// Look-alikes of the parts of a compound fault, in addition to those of the trial.
    pub never: Vec<&'static str>,
    /// Expected interference; if set, the findings do not count.
    pub interference: Option<InterferenceExpect>,
    /// Numbers that the evidence must show.
    pub figures: Vec<Figure>,
}

/// Expected interference between groups, by their paths.
#[derive(Clone, Debug)]
pub enum InterferenceExpect {
    /// The worst pair is any of these victims with this culprit.
    Pair { resource: &'static str, victims: Vec<String>, culprit: String },
    /// No group slows down another one.
    None,
}

impl InterferenceExpect {
    /// Describes what is wrong with the noticeable pairs. Ignores everything else that runs on the machine.
    pub fn mismatch(&self, pairs: &[InterferencePair]) -> Option<String> {
        let is_of_trial = |group: &GroupName| group.name.trim_start_matches('/').starts_with(PREFIX);
        let mut own = pairs.iter().filter(|pair| is_of_trial(&pair.victim) && is_of_trial(&pair.culprit));
        let worst = own.find(|pair| pair.is_felt());
        let found = || worst.map_or("no pair".to_owned(), pair_name);
        let is_right = match (self, worst) {
            (Self::None, worst) => worst.is_none(),
            (Self::Pair { .. }, None) => false,
            (Self::Pair { resource, victims, culprit }, Some(pair)) => {
                pair.resource == *resource && victims.contains(&pair.victim.name) && pair.culprit.name == *culprit
            }
        };
        (!is_right).then(|| format!("the worst is {}", found()))
    }
}

/// Formats a pair such as `/web behind /batch for cpu`.
pub fn pair_name(pair: &InterferencePair) -> String {
    format!("{} behind {} for {} {:.2}", pair.victim.name, pair.culprit.name, pair.resource, pair.seconds)
}

/// A number that follows from the setup of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Signal name.
    pub metric: &'static str,
    pub value: f64,
}

impl Figure {
    /// Maximum relative deviation of the reported number.
    pub const TOLERANCE: f64 = 0.1;

    pub fn is_near(&self, reported: f64) -> bool {
        (reported / self.value - 1.0).abs() <= Self::TOLERANCE
    }
}

impl Expect {
    /// Expects no finding at all.
    pub fn healthy() -> Self {
        Self::default()
    }

    /// Expects the finding to be about any of these.
    pub fn subject(subjects: impl Into<Vec<EntityPattern>>) -> Self {
        Self { subjects: subjects.into(), ..Self::default() }
    }

    /// Expects the table of who slows whom.
    pub fn interference(interference: InterferenceExpect) -> Self {
        Self { interference: Some(interference), ..Self::default() }
    }

    /// Expects the first culprit to be any of these.
    pub fn culprit(self, culprits: impl Into<Vec<EntityPattern>>) -> Self {
        Self { culprits: culprits.into(), ..self }
    }

    /// Expects the first finding to have this effect.
    pub fn effect(mut self, id: &'static str, effect: Self) -> Self {
        self.effects.push((id, effect));
        self
    }

    /// Expects another fault to be found, too.
    pub fn beside(mut self, id: Option<&'static str>, mut other: Self) -> Self {
        self.never.append(&mut other.never);
        self.beside.extend(id.map(|id| (id, other)));
        self
    }

    /// Expects that none of these is found.
    pub fn never(mut self, ids: &[&'static str]) -> Self {
        self.never.extend(ids);
        self
    }

    /// Describes the expectation for the finding `id`.
    pub fn describe(&self, id: &str) -> String {
        let mut text = format!("{id}@{self}");
        for (word, others) in [("and", &self.beside), ("causing", &self.effects)] {
            for (id, other) in others {
                text.push_str(&format!(" {word} {}", other.describe(id)));
            }
        }
        text
    }

    /// Expects the evidence to show this number, within a tenth.
    pub fn figure(mut self, metric: &'static str, value: f64) -> Self {
        self.figures.push(Figure { metric, value });
        self
    }
}

/// Pattern that matches a subject or culprit in a diagnosis.
#[derive(Clone, Debug)]
pub enum EntityPattern {
    Host,
    Process(u32),
    /// A process by name, if its PID changes.
    Command(&'static str),
    Thread(u32),
    /// An entity by kind and full name.
    Named(&'static str, String),
    /// A socket or a connection with this port at either end.
    Port(u16),
}

impl EntityPattern {
    pub fn device(name: &str) -> Self {
        Self::Named("device", name.into())
    }

    pub fn mount(dir: &Path) -> Self {
        Self::Named("mount", dir.display().to_string())
    }

    pub fn interface(name: &str) -> Self {
        Self::Named("interface", name.into())
    }

    pub fn cgroup(group: &Cgroup) -> Self {
        Self::Named("cgroup", group.path())
    }

    /// Returns whether it matches a finding's subject.
    pub fn is(&self, subject: &Subject) -> bool {
        match self {
            Self::Host => subject.kind == "host",
            Self::Process(pid) => matches!(&*subject.kind, "process" | "thread") && subject.pid == Some(*pid),
            Self::Command(name) => matches!(&*subject.kind, "process" | "thread") && named(&subject.name, name),
            Self::Thread(tid) => subject.kind == "thread" && subject.tid == Some(*tid),
            Self::Named(kind, name) => subject.kind == *kind && subject.name == *name,
            Self::Port(port) => matches!(&*subject.kind, "socket" | "connection") && has_port(&subject.name, *port),
        }
    }

    /// Returns whether it matches a finding's subject or the process that owns it.
    pub fn has(&self, subject: &Subject) -> bool {
        self.is(subject) || matches!(self, Self::Process(pid) if subject.pid == Some(*pid))
    }

    /// Returns whether it matches a culprit.
    pub fn did(&self, culprit: &Culprit) -> bool {
        match self {
            Self::Process(pid) | Self::Thread(pid) => culprit.pid == Some(*pid),
            Self::Named("cgroup", path) if culprit.cgroup.as_ref() == Some(path) => true,
            _ => self.is(&Subject::new(&culprit.kind, &*culprit.name)),
        }
    }
}

/// Returns whether `text` is `lab-hog`, `lab-hog (4711)` or `lab-hog[4711]`, but not `lab-hogs`.
fn named(text: &str, name: &str) -> bool {
    text.strip_prefix(name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
}

/// Returns whether a text such as `127.0.0.1:80` or `127.0.0.1:80->10.0.0.1:4711@ns` contains a port.
fn has_port(text: &str, port: u16) -> bool {
    let end = format!(":{port}");
    text.match_indices(&end).any(|(at, _)| !text[at + end.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

impl fmt::Display for EntityPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Process(pid) => write!(f, "pid {pid}"),
            Self::Command(name) => f.write_str(name),
            Self::Thread(tid) => write!(f, "tid {tid}"),
            Self::Named(_, name) => f.write_str(name),
            Self::Port(port) => write!(f, ":{port}"),
        }
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.interference {
            Some(InterferenceExpect::Pair { resource, culprit, .. }) => {
                return write!(f, "behind {} for {resource}", short(culprit));
            }
            Some(InterferenceExpect::None) => return f.write_str("no interference"),
            None => {}
        }
        f.write_str(&one_of(&self.subjects))?;
        if !self.culprits.is_empty() {
            write!(f, " by {}", one_of(&self.culprits))?;
        }
        Ok(())
    }
}

/// Returns the end of a path, long enough to distinguish the containers of a trial.
fn short(path: &str) -> &str {
    path.get(path.len().saturating_sub(12)..).unwrap_or(path)
}

/// Returns the first alternative and the number of further ones.
fn one_of(patterns: &[EntityPattern]) -> String {
    match patterns {
        [] => "anything".into(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (or {} more)", rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_not_part_of_another() {
        assert!(has_port("127.0.0.1:80", 80) && has_port("1.1.1.1:9->2.2.2.2:80@ns", 80));
        assert!(!has_port("127.0.0.1:8080", 80));
    }

    #[test]
    fn a_name_is_not_part_of_another() {
        assert!(named("lab-hog", "lab-hog") && named("lab-hog (7)", "lab-hog"));
        assert!(!named("lab-hogs", "lab-hog") && !named("lab-hog-x", "lab-hog"));
    }
}
