//! Plans: the output of a dry run.

use super::tunable::{Effect, Risk, Unavailable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a set of changes amounts to on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanDocument {
    /// The purpose.
    pub why: String,
    /// The changes, in order.
    pub lines: Vec<PlanLine>,
    /// Files to be written to make settings persistent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// A wanted setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanLine {
    /// The tunable, with its object.
    pub target: String,
    /// The wanted value.
    pub wanted: String,
    /// What has to be done.
    pub step: PlanStep,
    /// The reason for this value; empty if none was given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// When the change takes effect.
    pub effect: Effect,
    /// What can go wrong.
    pub risk: Risk,
    /// Whether it affects the network.
    pub network: bool,
    /// Whether the change could cut off or stall whoever makes it, or lowers a limit: it is rolled back unless it is confirmed.
    #[serde(default)]
    pub confirm: bool,
    /// Whether the change lowers a limit.
    #[serde(default)]
    pub lowers: bool,
}

/// What has to be done about a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "Step")]
pub enum PlanStep {
    /// It is changed from this value.
    Change {
        /// The current value.
        from: String,
    },
    /// It is already set.
    Already,
    /// It is left as it is, for a reason.
    Keep {
        /// The current value.
        now: String,
        /// The reason.
        why: String,
    },
    /// It cannot be set.
    Cannot(Unavailable),
}

/// Whether a setting has its intended value: a line of `tune verify` and `tune diff`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckLine {
    /// The transaction that set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The tunable, with its object.
    pub target: String,
    /// The value before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
    /// The intended value.
    pub wanted: String,
    /// The current value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<Unavailable>,
    /// Whether both values agree.
    pub holds: bool,
    /// Whether a reboot has reset it, as it was not persistent: it has a value again that it had before whyslow changed it.
    #[serde(default)]
    pub reset: bool,
    /// Whether it is a line that makes a setting persistent.
    pub is_kept: bool,
}

/// An available profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileInfo {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub summary: String,
    /// Where it is read from: a path from the root, or `built in/NAME`.
    pub place: String,
}

/// A part of a profile that is not applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileNote {
    /// The section.
    pub unit: String,
    /// The option.
    pub option: String,
    /// Its value.
    pub value: String,
    /// Why it is not applied, and what to do instead.
    pub why: String,
}

/// What a profile would change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfilePlan {
    /// Its settings.
    #[serde(flatten)]
    pub plan: PlanDocument,
    /// Its parts that are not applied.
    pub notes: Vec<ProfileNote>,
}

/// A profile that was read from tuned's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportedProfile {
    /// The profile as one file.
    pub text: String,
    /// What is left out of it, and why.
    pub notes: Vec<ProfileNote>,
    /// The name it is kept under.
    pub saved: Option<String>,
}

/// A recommended profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recommendation {
    /// Its name.
    pub profile: String,
    /// The reason.
    pub why: String,
}
