//! The diagnosis document, `whyslow.diagnosis/1`: a public interface, described in docs/diagnosis.md. Fields may be added,
//! existing ones do not change.

pub use whyslow_model::subject::Subject;

use crate::time_breakdown::TimeBreakdown;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use whyslow_model::human;

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.diagnosis/1";

/// Findings with evidence, what was ruled out, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The machine.
    pub host: Host,
    /// The period observed.
    pub window: TimeSpan,
    /// The answer in one word.
    pub verdict: Verdict,
    /// Root causes first, by impact, followed by effects.
    pub findings: Vec<Finding>,
    /// What was ruled out, each with the number that clears it.
    pub ruled_out: Vec<RuledOut>,
    /// Resources that are not ruled out, though no cause was found in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_cleared: Vec<NotCleared>,
    /// What could not be observed.
    pub blind_spots: Vec<BlindSpot>,
    /// The capture that would decide between the causes that remain possible; only for captures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_capture: Option<NextCapture>,
    /// Which group of processes slows which other one down, the worst pair first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interference: Vec<InterferencePair>,
    /// What was traced on demand because of a suspicion.
    #[serde(default)]
    pub closer_looks: Vec<CloserLook>,
    /// The share of the CPU time used, excluding interrupts, that is attributed to processes, including those that ended
    /// between samples. `null` if it was not computed.
    #[serde(default)]
    pub cpu_explained: Option<f64>,
    /// The cost of observing.
    pub cost: ObserverCost,
    /// Disks of captured virtual machines, and the devices of their captured host that hold them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub virtual_disks: Vec<VirtualDisk>,
    /// Captures of the same things, the second with something changed, and what differs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<CaptureComparison>,
    /// Where the time of the program went that was asked about; absent if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_breakdown: Option<TimeBreakdown>,
    /// How the disks that findings are about respond to load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub response_curves: Vec<ResponseCurve>,
    /// The figures in captures, by subject; the findings are judged from the same numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<SubjectFigures>,
    /// Who holds the machine's memory at the end of the window; absent if the main parts are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryLedger>,
    /// Who holds how much of other wholes: the CPUs' time, the memory of control groups that are short of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ledgers: Vec<Ledger>,
    /// How much of what is read and written each layer carries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<Flow>,
    /// Numbers outside their normal ranges, the furthest first, whether or not a cause is known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stands_out: Vec<Deviation>,
    /// The main figures of the most active subjects of captures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub main_figures: Vec<SubjectFigures>,
}

/// The machine's memory by holder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryLedger {
    /// All of it, in bytes.
    pub total: f64,
    /// The holders, the largest first; their parts add up to the whole.
    pub holders: Vec<MemoryHolding>,
}

/// The part of memory that one holder has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryHolding {
    /// The holder, in words.
    pub holder: String,
    /// Its part, in bytes.
    pub bytes: f64,
    /// Its share of all memory.
    pub share: f64,
    /// How it is computed from /proc/meminfo.
    pub how: String,
}

/// A whole, and who holds how much of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// What is divided: `CPU time`, `memory of the group`.
    pub whole: String,
    /// Whose it is.
    pub subject: Subject,
    /// Unit of the amounts: s, bytes.
    pub unit: String,
    /// All of it.
    pub total: f64,
    /// The holders, the largest first; their parts add up to the whole.
    pub holders: Vec<Holding>,
}

/// The part of a whole that one holder has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Holding {
    /// The holder, in words.
    pub holder: String,
    /// Its part.
    pub amount: f64,
    /// Its share of the whole.
    pub share: f64,
    /// How it is computed from what the kernel prints.
    pub how: String,
}

/// A flow through layers, from the calls of programs to the devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flow {
    /// What flows: `reads`, `writes`.
    pub flow: String,
    /// Unit of the amounts: bytes/s.
    pub unit: String,
    /// The layers, the uppermost first.
    pub layers: Vec<FlowLayer>,
}

/// What one layer carries of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowLayer {
    /// The layer, in words.
    pub layer: String,
    /// What it carries.
    pub amount: f64,
    /// The same divided by what the layer above carries; `null` for the uppermost one, and below one that carries nothing.
    pub of_above: Option<f64>,
    /// How it is computed, and from what.
    pub how: String,
}

/// A number outside its normal range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Deviation {
    /// What it is a number of.
    pub subject: Subject,
    /// One phrase on what the number is.
    pub meaning: String,
    /// The number, with what is normal.
    pub number: Evidence,
    /// How far outside it is: the factor to the end of the range; 10 where only 0 is normal, and 1000 at most.
    pub distance: f64,
}

impl Diagnosis {
    /// Creates a diagnosis with a verdict and nothing else.
    pub fn new(verdict: Verdict, window: TimeSpan) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            host: Host::default(),
            window,
            verdict,
            findings: Vec::new(),
            ruled_out: Vec::new(),
            not_cleared: Vec::new(),
            blind_spots: Vec::new(),
            next_capture: None,
            interference: Vec::new(),
            closer_looks: Vec::new(),
            cpu_explained: None,
            cost: ObserverCost::default(),
            virtual_disks: Vec::new(),
            comparisons: Vec::new(),
            time_breakdown: None,
            response_curves: Vec::new(),
            figures: Vec::new(),
            memory: None,
            ledgers: Vec::new(),
            flows: Vec::new(),
            stands_out: Vec::new(),
            main_figures: Vec::new(),
        }
    }
}

/// What a device did, and how long requests took, by the number of requests in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResponseCurve {
    /// The device.
    pub device: String,
    /// What it completed at each level of requests in flight; only levels that occurred.
    pub throughput: Vec<ThroughputLevel>,
    /// How long requests took in the device, by kind and requests in flight.
    pub latency: Vec<LatencyClass>,
}

/// What a device completed with about so many reads and writes in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThroughputLevel {
    /// Mean number in flight.
    pub in_flight: f64,
    /// Time with so many, seconds.
    pub busy_seconds: f64,
    /// Requests completed in that time.
    pub requests: f64,
    /// The same per second of it.
    pub requests_per_second: f64,
    /// Bytes per second of it.
    pub bytes_per_second: f64,
}

/// How long requests of one kind took with about so many in flight.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyClass {
    /// `read` or `write`.
    pub operation: String,
    /// Bytes of the largest requests of this class; `null` for the class of the largest.
    pub size_up_to: Option<u64>,
    /// `sequential` or `random`.
    pub access: String,
    /// Requests in flight, a power of two: the larger one of the numbers at a request's issue and at its completion.
    pub in_flight: u32,
    /// Number of requests.
    pub requests: f64,
    /// Mean time in the device, seconds.
    pub seconds: f64,
}

/// Two captures of the same things: an experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureComparison {
    /// The first capture, by its files.
    pub a: String,
    /// The second capture.
    pub b: String,
    /// What differs, in sentences.
    pub conclusions: Vec<String>,
}

/// A disk that a virtual machine sees, and the device of the host that it lies on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VirtualDisk {
    /// The disk, in the capture of the virtual machine.
    pub disk: Subject,
    /// What the host calls the virtual machine.
    pub guest: String,
    /// What QEMU calls the disk.
    pub name: String,
    /// What both captures say of it, by which it is known: `serial DB1`.
    pub known_by: String,
    /// The device of the host that it is, or that the file system of its image is on.
    pub device: Subject,
    /// The devices that this one lies on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<String>,
    /// Requests per second that the virtual machine made.
    pub requests: Option<f64>,
    /// Requests per second of the device.
    pub device_requests: Option<f64>,
    /// Seconds that a request took, as the virtual machine sees it.
    pub wait: Option<f64>,
    /// Seconds that a request took, as the host sees it.
    pub device_wait: Option<f64>,
    /// Share of the time in which the device had requests, 0..1.
    pub device_busy: Option<f64>,
}

/// A group of processes that waits for a resource, and one that keeps it waiting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InterferencePair {
    /// Who waits.
    pub victim: GroupName,
    /// Who keeps it waiting.
    pub culprit: GroupName,
    /// What for: cpu, disk, memory or network.
    pub resource: String,
    /// Which one, if there can be several: the device; of memory, the control group whose limit both are under, `/` for the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// Seconds of waiting, summed over tasks, requests or packets.
    pub seconds: f64,
    /// Seconds within which that was observed.
    pub observed: f64,
    /// Its share of the victim's waiting for this resource, 0..1.
    pub share: f64,
    /// Its share of the victim's time with the resource, waiting included, 0..1.
    pub loss: f64,
    /// How certain this is.
    pub confidence: Confidence,
    /// The formula.
    pub how: String,
}

impl InterferencePair {
    /// Thresholds at which the victim is noticeably slower: share of the time spent waiting, and share of the victim's
    /// time lost.
    const FELT: (f64, f64) = (0.05, 0.1);

    /// Returns whether it is noticeable, with at least medium confidence.
    pub fn is_felt(&self) -> bool {
        self.confidence >= Confidence::Medium
            && self.seconds >= Self::FELT.0 * self.observed
            && self.loss >= Self::FELT.1
    }
}

/// A group of processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupName {
    /// cgroup; or kernel for the kernel's own threads.
    pub kind: String,
    /// Its path.
    pub name: String,
    /// The systemd unit it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The container that it is: the first twelve digits of its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The virtual machine that it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<String>,
}

/// What is known about one subject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SubjectFigures {
    /// The subject.
    pub subject: Subject,
    /// Its signals with known values.
    pub values: Vec<Evidence>,
}

impl SubjectFigures {
    /// Returns a known signal.
    pub fn evidence(&self, metric: &str) -> Option<&Evidence> {
        self.values.iter().find(|value| value.metric == metric)
    }

    /// Returns a known signal that is a number.
    pub fn number(&self, metric: &str) -> Option<f64> {
        match self.evidence(metric)?.value {
            Reading::Number(number) => Some(number),
            Reading::Text(_) => None,
        }
    }
}

/// The machine; unknown fields are `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Host name; of captures of several hosts, all of them, separated by commas.
    pub name: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// CPUs online.
    pub cpus: Option<u32>,
    /// Usable memory.
    pub memory_bytes: Option<u64>,
    /// `none` or the hypervisor.
    pub virtualization: Option<String>,
}

impl Host {
    /// Returns whether both hosts have a known name, and the names belong to different machines.
    pub fn is_another(&self, other: &Self) -> bool {
        Self::names_differ(self.name.as_deref(), other.name.as_deref())
    }

    /// Returns whether both names are known and neither is the other's full name. `localhost` matches any machine.
    pub fn names_differ(a: Option<&str>, b: Option<&str>) -> bool {
        let (Some(a), Some(b)) = (a, b) else { return false };
        let is_full_name = |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'));
        a != b && ![a, b].contains(&"localhost") && !is_full_name(a, b) && !is_full_name(b, a)
    }
}

/// The period a diagnosis covers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeSpan {
    /// First sample, RFC 3339.
    pub start: Option<String>,
    /// Last sample, RFC 3339.
    pub end: Option<String>,
    /// Duration, seconds.
    pub seconds: f64,
    /// Whether the times between its samples are assumed: captures do not always print them. Rates do not depend on them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_assumed: bool,
    /// Number of samples.
    pub samples: usize,
    /// Their origin.
    pub source: Origin,
}

impl TimeSpan {
    /// Creates a span of this many samples, without start and end times.
    pub fn new(source: Origin, seconds: f64, samples: usize) -> Self {
        Self { start: None, end: None, seconds, is_assumed: false, samples, source }
    }
}

/// Where samples come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// This machine, live.
    Live,
    /// A recording.
    Recording,
    /// Other tools' output.
    Import,
}

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Tasks are delayed, and the cause is known.
    Bottleneck,
    /// No resource is saturated or failing.
    Healthy,
    /// Not enough could be observed.
    Undetermined,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// A suspicion, with its reason.
    #[default]
    Low,
    /// Likely; a look-alike is not ruled out.
    Medium,
    /// The look-alikes are ruled out.
    High,
}

impl Confidence {
    /// Returns the word used in documents.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }

    /// Returns the level with this word.
    pub fn named(word: &str) -> Option<Self> {
        [Self::Low, Self::Medium, Self::High].into_iter().find(|confidence| confidence.word() == word)
    }
}

/// What an impact is based on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The time lost was measured.
    #[default]
    Measured,
    /// A lower bound: at least this much time was lost.
    AtLeast,
    /// No time was measured, as in a log: the number states the severity of such a cause, not a share of time.
    NotMeasured,
}

/// A cause or an effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// From docs/findings.md.
    pub id: String,
    /// What is saturated or failing.
    pub subject: Subject,
    /// The host it is on, if captures of several hosts were read together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The processes that consume it, largest first.
    pub culprits: Vec<Culprit>,
    /// The unattributed share, if it is large or no culprit is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unattributed: Option<Unattributed>,
    /// How many more findings with this id on other subjects were left out; set on the most severe one, if possible of the same
    /// program.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: usize,
    /// The part of the window in which it was found; absent if it was found throughout, or its time is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub during: Option<During>,
    /// The share of the window, or of the part of it in `during`, in which work was delayed by this cause, 0..1.
    pub impact: f64,
    /// What the impact is based on.
    #[serde(default)]
    pub impact_is: Basis,
    /// What the impact means, in words; absent if it is the share of the time in which a task waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how_bad: Option<String>,
    /// How long it has lasted; absent if nothing shows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
    /// How certain this is.
    pub confidence: Confidence,
    /// The finding in one sentence.
    pub summary: String,
    /// The numbers that support it.
    pub evidence: Vec<Evidence>,
    /// Keys `id@subject` of the findings that are effects of this one.
    pub explains: Vec<String>,
    /// The key of the finding this one is an effect of.
    pub explained_by: Option<String>,
    /// Keys of findings from other evidence that this cause leads to one to expect, where they raised its confidence by a step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirmed_by: Vec<String>,
    /// Possible changes, best first.
    pub actions: Vec<Action>,
}

impl Finding {
    /// Returns the key by which others refer to it: `id@name`, with `[pid]` or `[pid/tid]` appended if the subject is a
    /// process or thread, as several can share a name, and with `@` and the network namespace unless that is the
    /// observer's own. If the subject has a capture, ` in ` and its name follow.
    pub fn key(&self) -> String {
        self.subject.key_of(&self.id)
    }

    /// Share of lost time from which a machine is not healthy.
    const FELT: f64 = 0.05;

    /// Returns whether it was noticeable, with at least medium confidence. A finding with only a lower bound may have
    /// cost any amount of time, and counts as noticeable.
    pub fn is_felt(&self) -> bool {
        let is_noticed = self.impact >= Self::FELT || self.impact_is == Basis::AtLeast;
        self.confidence >= Confidence::Medium && is_noticed
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The share of a resource that could not be attributed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unattributed {
    /// Its share of the whole, 0..1; `null` if the whole is unknown.
    pub share: Option<f64>,
    /// What it is a share of.
    pub of: String,
    /// Why it could not be attributed.
    pub why: String,
    /// What would show who it is; empty if nothing would.
    pub remedy: String,
}

/// The part of a window in which something was so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct During {
    /// When it began, RFC 3339; absent if the times are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// When it last ended, RFC 3339; absent if the times are unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Seconds from the start of the window until it began.
    pub from: f64,
    /// Seconds from the start of the window until it last ended.
    pub to: f64,
    /// For how long it was so in all, seconds.
    pub seconds: f64,
    /// The same as a share of the window, 0..1.
    pub share: f64,
    /// The number of intervals in which it was so.
    pub intervals: usize,
    /// The first of them, counted from 1.
    pub first_interval: usize,
    /// The last of them.
    pub last_interval: usize,
    /// The number of intervals that the window was judged in.
    pub of_intervals: usize,
    /// How many times it began.
    pub episodes: usize,
}

/// How long a cause has lasted, up to the end of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Since {
    /// When it began, RFC 3339; absent if it was already there at the start of the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<String>,
    /// Duration, seconds; without `start`, at least.
    pub seconds: f64,
    /// What shows it.
    pub source: String,
    /// The kernel average that shows that it has lasted for longer than the window, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average: Option<KernelAverage>,
}

/// An average that the kernel keeps over a fixed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KernelAverage {
    /// Of pressure stall information, over 60 or 300 seconds.
    Pressure,
    /// The load averages.
    Load,
}

/// Which process consumes a resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Culprit {
    /// process, thread, cgroup, device ...
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its PID; of several processes, that of the largest consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// All its processes if there are several, the largest consumer first: processes with the same name are one culprit, unless they
    /// are of different systemd units or containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<u32>,
    /// The command line of `pid`, with secrets masked, read live if the process was still running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_line: Option<String>,
    /// Its control group; of several, that of the largest consumer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// All its control groups if there are several, the largest consumer first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<CgroupShare>,
    /// The systemd unit it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The container it runs in: the first twelve digits of its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Its share, 0..1.
    pub share: f64,
    /// What it is a share of.
    pub of: String,
}

/// The part of a culprit that is in one control group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CgroupShare {
    /// The control group.
    pub cgroup: String,
    /// The share of what is in it, of the same whole as the culprit's.
    pub share: f64,
}

impl Culprit {
    /// Returns the number of processes; 1 if the culprit is not a process.
    pub fn count(&self) -> usize {
        self.pids.len().max(1)
    }

    /// Returns all its processes.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        let one = self.pid.filter(|_| self.pids.is_empty());
        self.pids.iter().copied().chain(one)
    }
}

/// One number that supports a finding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The signal's name.
    pub metric: String,
    /// Its value: a number or words.
    pub value: Reading,
    /// Its unit: s, bytes, bytes/s, 1/s, ratio, count, bit/s, text.
    pub unit: String,
    /// What is expected on a healthy machine.
    pub expected: String,
    /// Where it was read.
    pub source: String,
    /// The formula, if the value is derived.
    pub how: String,
}

/// A number or words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Reading {
    /// A number in the unit given beside it.
    Number(f64),
    /// Words.
    Text(String),
}

/// One change to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Action {
    /// `tunable` if it is a setting, otherwise `advice`.
    pub kind: ActionKind,
    /// What to do, in words.
    pub text: String,
    /// The settings, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// The command that makes or proves it.
    #[serde(rename = "try", default, skip_serializing_if = "Option::is_none")]
    pub try_command: Option<String>,
    /// The improvement to expect, in words, if the rule states one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// The same as a number, if it can be computed from what was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<Gain>,
}

/// By how much a change improves something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// What improves: `reads`.
    pub what: String,
    /// How many times as fast it becomes; the least where there is no upper bound.
    pub factor: f64,
    /// The least that is expected.
    pub low: f64,
    /// The most that is expected; `None` where nothing bounds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

impl fmt::Display for Gain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, factor) = (&self.what, human::factor(self.factor));
        let Some(high) = self.high else { return write!(f, "{what} at least {factor} times as fast") };
        write!(f, "{what} {factor} times as fast")?;
        let [low, high] = [self.low, high].map(human::factor);
        if low == high { Ok(()) } else { write!(f, ", {low} to {high}") }
    }
}

/// The kind of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// A setting of the kernel.
    Tunable,
    /// Something that a person does.
    Advice,
    /// A diagnostic command, which changes nothing.
    Diagnostic,
}

/// Something that was ruled out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuledOut {
    /// A finding's id, or a resource: cpu, memory, disk, network.
    pub id: String,
    /// The reason, with the number that clears it.
    pub because: String,
}

/// A resource in which no cause was found, or only a suspicion, though a measure of it is above the threshold that would clear it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotCleared {
    /// The resource: cpu, memory, disk, network.
    pub id: String,
    /// What stands out, with its number.
    pub because: String,
    /// The part of the window in which it stands out, if that is not all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub during: Option<During>,
}

/// Reason given when no capture covers a resource.
pub const NOT_CAPTURED: &str = "not covered by any capture";

/// Something that could not be observed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct BlindSpot {
    /// What it is.
    pub what: String,
    /// The reason.
    pub why: String,
    /// The remedy: what would make it visible.
    pub remedy: String,
}

/// A command whose output would decide between the causes that remain possible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NextCapture {
    /// The host to capture on, if captures of several hosts were read together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The command, to be run on the captured host.
    pub command: String,
    /// What each outcome would mean, the likeliest first.
    pub outcomes: Vec<CaptureOutcome>,
    /// What it means if none of these is the case.
    pub otherwise: String,
}

/// What one outcome of a capture would mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CaptureOutcome {
    /// What the output shows.
    #[serde(rename = "if")]
    pub condition: String,
    /// What follows from that.
    pub then: String,
    /// The beginnings of the ids of the findings that it decides: `disk.`, `cpu.saturated`.
    pub decides: Vec<String>,
}

/// A source too expensive to be always on, which was on for part of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CloserLook {
    /// The source's name, such as `bpf/sched`.
    pub source: String,
    /// What it shows.
    pub tells: String,
    /// How long it was on, seconds.
    pub seconds: f64,
}

/// The cost of observing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObserverCost {
    /// CPU time, seconds.
    pub cpu_seconds: f64,
    /// The same as a share of the machine's CPUs over the window.
    pub cpu_share: f64,
    /// Maximum resident memory.
    pub memory_bytes: u64,
}
