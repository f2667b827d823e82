//! What a trial's answer must say.

use std::fmt;
use whyslow_model::diagnosis::{Culprit, Subject};

/// What must be found, and what must not.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    /// What must be named first; `None` where the machine is well.
    pub first: Option<First>,
    /// What must not be found with confidence high but as an effect of something else: the fault's look-alikes. On a
    /// healthy control that is everything.
    pub never: Vec<&'static str>,
    /// Resources that must not be ruled out.
    pub not_ruled_out: Vec<&'static str>,
    /// On a healthy control: what may be found all the same, but with no more than [`SLIGHT`] impact.
    pub slightly: Vec<&'static str>,
}

/// The impact up to which a finding is slight.
pub const SLIGHT: f64 = 0.25;

/// The finding that must come first. Where there are several subjects or culprits, any of them will do.
#[derive(Clone, Debug)]
pub struct First {
    /// The finding's id.
    pub id: &'static str,
    /// What it is about.
    pub subjects: Vec<Who>,
    /// Who is to blame; empty where the subject itself is.
    pub culprits: Vec<Who>,
}

impl Expect {
    /// The machine is well, whatever it looks like.
    pub fn healthy() -> Self {
        Self::default()
    }

    /// `id` must come first, about any of `subjects`.
    pub fn first(id: &'static str, subjects: impl Into<Vec<Who>>) -> Self {
        Self { first: Some(First { id, subjects: subjects.into(), culprits: Vec::new() }), ..Self::default() }
    }

    /// Any of these must be the first culprit.
    pub fn by(mut self, culprits: impl Into<Vec<Who>>) -> Self {
        if let Some(first) = &mut self.first {
            first.culprits = culprits.into();
        }
        self
    }

    /// None of these may be found with confidence high.
    pub fn never(mut self, ids: &[&'static str]) -> Self {
        self.never.extend(ids);
        self
    }

    /// None of these resources may be ruled out.
    pub fn not_ruled_out(mut self, resources: &[&'static str]) -> Self {
        self.not_ruled_out.extend(resources);
        self
    }

    /// These may be found with a slight impact.
    pub fn slightly(mut self, ids: &[&'static str]) -> Self {
        self.slightly.extend(ids);
        self
    }
}

/// Somebody or something in a diagnosis.
#[derive(Clone, Debug)]
pub enum Who {
    /// The machine.
    Host,
    /// A process, by number.
    Process(u32),
    /// A process, by name, whatever its number: it comes and goes.
    Command(&'static str),
    /// A thread.
    Thread(u32),
    /// Something of a kind, by its full name.
    Named(&'static str, String),
    /// A socket or connection one end of which has this port.
    Port(u16),
}

impl Who {
    /// A device.
    pub fn device(name: &str) -> Self {
        Self::Named("device", name.into())
    }

    /// A control group.
    pub fn cgroup(path: impl Into<String>) -> Self {
        Self::Named("cgroup", path.into())
    }

    /// Whether a finding's subject is the one meant.
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

    /// Whether a finding's subject is the one meant, or is a socket or the like that belongs to it.
    pub fn has(&self, subject: &Subject) -> bool {
        self.is(subject) || matches!(self, Self::Process(pid) if subject.pid == Some(*pid))
    }

    /// Whether a culprit is the one meant.
    pub fn did(&self, culprit: &Culprit) -> bool {
        match self {
            Self::Process(pid) | Self::Thread(pid) => culprit.pid == Some(*pid),
            Self::Named("cgroup", path) if culprit.cgroup.as_ref() == Some(path) => true,
            _ => self.is(&Subject::new(&culprit.kind, &*culprit.name)),
        }
    }
}

/// `lab-hog`, or `lab-hog` followed by something that is no part of a name: `lab-hog (4711)`, `lab-hog[4711]`.
fn named(text: &str, name: &str) -> bool {
    text.strip_prefix(name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '-'))
}

/// `127.0.0.1:80`, `127.0.0.1:80->10.0.0.1:4711@ns`.
fn has_port(text: &str, port: u16) -> bool {
    let end = format!(":{port}");
    text.match_indices(&end).any(|(at, _)| !text[at + end.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

impl fmt::Display for Who {
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
        let Some(first) = &self.first else { return f.write_str("healthy") };
        write!(f, "{}@{}", first.id, one_of(&first.subjects))?;
        if !first.culprits.is_empty() {
            write!(f, " by {}", one_of(&first.culprits))?;
        }
        Ok(())
    }
}

/// The first of several, and how many more.
fn one_of(those: &[Who]) -> String {
    match those {
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
