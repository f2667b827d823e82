//! Hosts and data offered by `whyslow serve`: its JSON, `whyslow.serve/1`. Fields may be added, existing ones do not
//! change.

use crate::diagnosis::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.serve/1";

/// The hosts that can be looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overview {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The version of whyslow.
    pub version: String,
    /// The live machine first, then recordings.
    pub hosts: Vec<HostOverview>,
}

/// Live, or out of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HostKind {
    /// The machine that serves.
    Live,
    /// A recording.
    #[default]
    Recording,
}

/// A machine, in a line. What is not known yet is `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostOverview {
    /// What it is asked for by: `live`, or the number of a recording.
    pub id: String,
    /// The name of the machine; of a recording that does not say it, that of its folder.
    pub name: String,
    /// Live or recorded.
    pub kind: HostKind,
    /// The first sample, seconds since 1970.
    pub from: Option<f64>,
    /// The last one.
    pub to: Option<f64>,
    /// The time from one sample to the next, seconds.
    pub interval: Option<f64>,
    /// The folder of a recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The verdict on the last seconds; of a recording that on its worst episode of its last day.
    pub verdict: Option<Verdict>,
    /// The main finding, in a sentence.
    pub finding: Option<String>,
    /// Its impact, 0..1.
    pub severity: Option<f64>,
    /// Of a recording, the share of the time lost over intervals of equal length, from the first sample to the last: the largest of the
    /// pressures of CPU, memory and I/O. `null` where nothing was recorded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pressure: Vec<Option<f64>>,
    /// Why a recording cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
