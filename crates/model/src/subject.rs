//! Subjects of findings, named as the system spells them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The subject of a finding or a culprit, named as the system spells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// host, cpu, process, thread, cgroup, device, partition, mount, interface, connection, irq, socket, array, limit,
    /// database.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its PID, if it is a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its TID, if it is a thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// Its network namespace, if it is not the observer's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The captures it was seen in, if several captures of the same things are shown side by side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<String>,
}

impl Subject {
    /// Creates a subject without a process.
    pub fn new(kind: &str, name: impl Into<String>) -> Self {
        Self { kind: kind.into(), name: name.into(), ..Self::default() }
    }

    /// Returns the machine itself as the subject.
    pub fn host() -> Self {
        Self::new("host", "host")
    }

    /// Returns the key of a finding with this id about the subject.
    pub fn key_of(&self, id: &str) -> String {
        let Self { name, pid, tid, netns, .. } = self;
        let task = match (pid, tid) {
            (Some(pid), Some(tid)) => format!("[{pid}/{tid}]"),
            (Some(pid), None) => format!("[{pid}]"),
            (None, _) => String::new(),
        };
        let netns = netns.as_ref().map_or_else(String::new, |netns| format!("@{netns}"));
        let capture = self.capture.as_ref().map_or_else(String::new, |capture| format!(" in {capture}"));
        format!("{id}@{name}{task}{netns}{capture}")
    }

    /// Returns whether both are the same apart from process and thread.
    pub fn is_namesake_of(&self, other: &Self) -> bool {
        let without_task = |subject: &Self| Self { pid: None, tid: None, ..subject.clone() };
        without_task(self) == without_task(other)
    }
}
