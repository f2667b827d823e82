//! What would be done: the words of a dry run.

use super::tunable::{Effect, Risk, Unavailable};
use serde::{Deserialize, Serialize};

/// What a set of changes comes to on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanDocument {
    /// What for.
    pub why: String,
    /// Change by change, in the order they are made.
    pub lines: Vec<PlanLine>,
    /// Files that are written for what is to outlive a reboot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// One setting that is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanLine {
    /// The tunable, with its thing.
    pub target: String,
    /// What it shall be.
    pub wanted: String,
    /// What is to be done about it.
    pub step: Step,
    /// Why this value; empty where nobody said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// When it shows.
    pub effect: Effect,
    /// What can go wrong.
    pub risk: Risk,
    /// Whether it is of the network, and to be confirmed.
    pub network: bool,
}

/// What is to be done about a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// It is changed from this value.
    Change {
        /// What it is now.
        from: String,
    },
    /// It is so already.
    Already,
    /// It stays, for this reason.
    Keep {
        /// What it is now.
        now: String,
        /// Why it stays.
        why: String,
    },
    /// It cannot be.
    Cannot(Unavailable),
}

/// Whether a setting is as it shall be: a line of `tune verify` and `tune diff`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckLine {
    /// The transaction that set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The tunable, with its thing.
    pub target: String,
    /// What it was before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original: Option<String>,
    /// What it shall be.
    pub wanted: String,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
    /// Why it has no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<Unavailable>,
    /// Whether it is as it shall be.
    pub holds: bool,
    /// Whether it is a line that keeps a setting over a reboot.
    pub is_kept: bool,
}
