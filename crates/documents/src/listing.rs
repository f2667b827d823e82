//! What `whyslow rules` and `whyslow formats` list.

use crate::diagnosis::ActionKind;
use schemars::JsonSchema;
use serde::Serialize;
use whyslow_model::normal::{Better, Normal};

/// Splits a value in a rule's `set` into the value itself and whether the setting is only raised to it: `>8192` leaves a larger
/// value alone.
pub fn split_set_value(text: &str) -> (&str, bool) {
    match text.strip_prefix('>') {
        Some(least) => (least, true),
        None => (text, false),
    }
}

/// A rule's description. Judging with it is the job of the crate `diagnose`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RuleInfo {
    /// The finding's id, `resource.cause`.
    pub id: String,
    /// The file it stands in; `built in` for those in the program.
    pub file: String,
    /// Which of the rules for this id it is: `queue` for ID.queue.toml; empty for ID.toml and for users' own rules.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub variant: String,
    /// What is physically true when it holds, in one sentence.
    pub means: String,
    /// What kind of entity it is asked of: host, disk, process ...
    pub scope: String,
    /// The condition, in CEL.
    pub when: String,
    /// The time lost, in CEL: the part of the window in which work was delayed. Empty where none is measured.
    pub impact: String,
    /// How grave it is where no time was measured, in CEL, 0..1. Empty where time always is.
    pub severity: String,
    /// What looks alike, and how it is told apart.
    pub look_alikes: Vec<String>,
    /// The ids of findings that are effects of this one.
    pub explains: Vec<String>,
    /// The sources that look closer, turned on once it is suspected to hold.
    pub asks: Vec<String>,
    /// The numbers that a finding shows, and what a healthy machine has instead.
    pub evidence: Vec<EvidenceInfo>,
    /// What it recommends.
    pub actions: Vec<ActionInfo>,
    /// The signals it reads, with unit and formula.
    pub signals: Vec<Signal>,
    /// Kernel files, man pages, documents it rests on.
    pub sources: Vec<String>,
}

/// The rules for one id: the main one, and the others beside it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RuleDetails {
    /// The main rule.
    #[serde(flatten)]
    pub rule: RuleInfo,
    /// The other rules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variants: Vec<RuleInfo>,
}

/// A number that a finding shows.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EvidenceInfo {
    /// The signal.
    pub signal: String,
    /// What a healthy machine would show.
    pub expected: String,
}

/// An action that a finding may recommend; what depends on the finding stands in angle brackets.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ActionInfo {
    /// Whether it is a setting, something that a person does, or a command that only finds something out.
    pub kind: ActionKind,
    /// What to do.
    pub text: String,
    /// The settings to change, as `whyslow tune` names them, and their values; one that begins with `>` is only raised to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<(String, String)>,
    /// The improvement to expect; empty where it is computed from what was measured, or not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub expect: String,
    /// When it is recommended, in CEL; empty for always.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub when: String,
}

/// A signal's description.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Signal {
    /// Its name, `disk.queue`.
    pub name: &'static str,
    /// Its unit, as in the diagnosis document.
    pub unit: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// Its formula.
    pub how: &'static str,
    /// Where its counters come from.
    pub source: &'static str,
    /// The values at which nobody would look twice, in words; empty where they depend on the cause it is evidence of.
    pub normal: Normal,
    /// The direction that is better, unless that depends on the amount of work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub better: Option<Better>,
    /// Whether baselines keep it. Settings are in their inventory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub baseline: bool,
}

/// A format's description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FormatInfo {
    /// The tool, or the file under /proc.
    pub name: &'static str,
    /// The supported versions and variants.
    pub versions: &'static str,
    /// What it shows on its own.
    #[serde(rename = "tells")]
    pub shows: &'static str,
    /// What it does not show.
    pub lacks: &'static str,
    /// The metrics that the columns of its tables become.
    pub metrics: Vec<String>,
}
