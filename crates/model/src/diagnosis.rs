//! The diagnosis document, `whyslow.diagnosis/1`: public interface, described in docs/diagnosis.md. Fields may be added;
//! these stay.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.diagnosis/1";

/// What was found, on what evidence, what it is not, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The machine.
    pub host: Host,
    /// The time looked at.
    pub window: Span,
    /// The answer in one word.
    pub verdict: Verdict,
    /// Root causes first, by impact; effects after them.
    pub findings: Vec<Finding>,
    /// What it is not, each with the number that clears it.
    pub ruled_out: Vec<RuledOut>,
    /// What could not be seen.
    pub blind_spots: Vec<BlindSpot>,
    /// What was looked at closer, because a finding asked for it.
    #[serde(default)]
    pub closer_looks: Vec<CloserLook>,
    /// The share of the processor time used, but for interrupts, that is charged to processes; those that ended unseen are
    /// among them. `null` where it was not computed.
    #[serde(default)]
    pub cpu_explained: Option<f64>,
    /// What observing cost.
    pub cost: Cost,
    /// What captures tell, thing by thing, where they were read from files; what is judged is the same numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figures>,
}

/// What is known of one thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The thing.
    pub subject: Subject,
    /// Its signals whose value is known.
    pub values: Vec<Evidence>,
}

/// The machine a diagnosis is of; `null` where unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Host name.
    pub name: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Processors online.
    pub cpus: Option<u32>,
    /// Usable memory.
    pub memory_bytes: Option<u64>,
    /// `none` or the hypervisor.
    pub virtualization: Option<String>,
}

/// The time a diagnosis covers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// First sample, RFC 3339.
    pub start: Option<String>,
    /// Last sample, RFC 3339.
    pub end: Option<String>,
    /// From the first to the last.
    pub seconds: f64,
    /// How many samples.
    pub samples: usize,
    /// Where they came from.
    pub source: Origin,
}

/// Where samples came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// This machine, now.
    Live,
    /// A recording.
    Recording,
    /// Other tools' output.
    Import,
}

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Somebody waits, and we know for what.
    Bottleneck,
    /// No resource is saturated or failing.
    Healthy,
    /// Too little could be seen.
    Undetermined,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// A suspicion, with its reason.
    Low,
    /// Likely; a look-alike is not excluded.
    Medium,
    /// The look-alikes are excluded.
    High,
}

/// What an impact rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The time lost was measured.
    #[default]
    Measured,
    /// So much is known to have been lost; more may have been.
    AtLeast,
    /// No time was measured, as in a log: the number says how grave such a cause is, and no share of any time.
    NotMeasured,
}

/// What a finding, or a culprit, is about, named as the system spells it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// host, cpu, process, thread, cgroup, device, partition, mount, interface, connection, irq, socket, array, limit,
    /// database.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its process, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its thread, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tid: Option<u32>,
    /// Its network namespace, where that is not the observer's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub netns: Option<String>,
    /// The captures it was seen in, where several stand side by side that tell of the same things.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<String>,
}

impl Subject {
    /// A subject that has no process.
    pub fn new(kind: &str, name: impl Into<String>) -> Self {
        Self { kind: kind.into(), name: name.into(), ..Self::default() }
    }

    /// The machine itself.
    pub fn host() -> Self {
        Self::new("host", "host")
    }

    /// Whether it is the same but for the process: another one of its name.
    pub fn is_namesake_of(&self, other: &Self) -> bool {
        let without_task = |subject: &Self| Self { pid: None, tid: None, ..subject.clone() };
        without_task(self) == without_task(other)
    }
}

/// One cause, or one effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// From docs/findings.md.
    pub id: String,
    /// The thing that is short or broken.
    pub subject: Subject,
    /// Who uses it up, largest first.
    pub culprits: Vec<Culprit>,
    /// What of it could not be attributed, where that is a notable part or nobody is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattributed: Option<Unattributed>,
    /// How many more findings of this id on other subjects there are beyond those listed; at the gravest of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// The part of the window, 0..1, in which work was delayed by this cause.
    pub impact: f64,
    /// What that number rests on.
    #[serde(default)]
    pub impact_is: Basis,
    /// What the impact is, in words; absent where it is the share of the time in which a task waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how_bad: Option<String>,
    /// Since when it has lasted; absent where nothing shows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
    /// How sure this is.
    pub confidence: Confidence,
    /// One sentence a tired person understands.
    pub summary: String,
    /// The numbers.
    pub evidence: Vec<Evidence>,
    /// Keys `id@subject` of the findings that are effects of this one.
    pub explains: Vec<String>,
    /// The key of the finding this one is an effect of.
    pub explained_by: Option<String>,
    /// One change at a time, best first.
    pub actions: Vec<Action>,
}

impl Finding {
    /// The key others refer to it by: `id@name`, with `[pid]` or `[pid/tid]` behind it where the subject is a process or
    /// a thread, of which several can have one name.
    pub fn key(&self) -> String {
        let Subject { name, pid, tid, .. } = &self.subject;
        let task = match (pid, tid) {
            (Some(pid), Some(tid)) => format!("[{pid}/{tid}]"),
            (Some(pid), None) => format!("[{pid}]"),
            (None, _) => String::new(),
        };
        let capture = self.subject.capture.as_ref().map_or_else(String::new, |capture| format!(" in {capture}"));
        format!("{}@{name}{task}{capture}", self.id)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// What nobody could be found for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unattributed {
    /// Its part of the whole, 0..1; `null` where the whole is not known.
    pub share: Option<f64>,
    /// Of what.
    pub of: String,
    /// Why.
    pub why: String,
    /// What would show who it is; empty where nothing would.
    pub remedy: String,
}

/// How long a cause has lasted, up to the end of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Since {
    /// When it began, RFC 3339; absent where it was there from the start of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// How long it has lasted; without `start`, at least.
    pub seconds: f64,
    /// What shows it.
    pub source: String,
}

/// Which process consumes a resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Culprit {
    /// process, thread, cgroup, device ...
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its process; of several, the one with the largest part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// All its processes where there are several, the one with the largest part first: those of one name in one control group
    /// are one culprit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// The command line of `pid`, with secrets masked: read live, where the process was still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    /// Its control group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The systemd unit it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The container it runs in, by the first twelve digits of its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Its part, 0..1.
    pub share: f64,
    /// Of what.
    pub of: String,
}

impl Culprit {
    /// How many processes it is; 1 where it is no process.
    pub fn count(&self) -> usize {
        self.pids.len().max(1)
    }

    /// All its processes.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        let one = self.pid.filter(|_| self.pids.is_empty());
        self.pids.iter().copied().chain(one)
    }
}

/// One number that bears a finding out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// The signal's name.
    pub metric: String,
    /// Its value: a number, or words.
    pub value: Reading,
    /// Its unit: s, bytes, bytes/s, 1/s, ratio, count, bit/s, text.
    pub unit: String,
    /// What one would expect on a machine that is well.
    pub expected: String,
    /// Where it was read.
    pub source: String,
    /// The formula, where the value is derived.
    pub how: String,
}

/// A number or words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reading {
    /// A number in the unit that stands beside it.
    Number(f64),
    /// Words.
    Text(String),
}

/// One change to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// `tunable` where a setting does it, else `advice`.
    pub kind: ActionKind,
    /// What to do, in words.
    pub text: String,
    /// The settings, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// The command that makes or proves it.
    #[serde(rename = "try", default, skip_serializing_if = "Option::is_none")]
    pub try_command: Option<String>,
    /// The improvement to expect, in words, where the rule states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
}

/// What kind of change an action is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// A setting of the kernel.
    Tunable,
    /// Something a person does.
    Advice,
    /// Nothing is changed: how to find out more.
    Diagnostic,
}

/// What it is not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuledOut {
    /// A finding's id, or a resource: cpu, memory, disk, network.
    pub id: String,
    /// Why, with the number that clears it.
    pub because: String,
}

/// What could not be seen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlindSpot {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
    /// What would let us see it.
    pub remedy: String,
}

/// A source too costly to be always on, which was on for a part of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CloserLook {
    /// The source's name, such as `bpf/sched`.
    pub source: String,
    /// What it tells.
    pub tells: String,
    /// For how long it was on.
    pub seconds: f64,
}

/// What observing cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Processor time in seconds.
    pub cpu_seconds: f64,
    /// The same as a part of the machine's processors over the window.
    pub cpu_share: f64,
    /// Largest resident memory.
    pub memory_bytes: u64,
}
