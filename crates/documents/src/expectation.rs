//! Expected performance of storage and network next to the measured one: `whyslow.expect/1`. Public interface,
//! described in docs/expect.md: fields may be added, existing ones do not change.

use crate::diagnosis::BlindSpot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.expect/1";

/// What a machine's storage and network should deliver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expectations {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The name of the machine, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// For how long it was watched, seconds.
    pub seconds: f64,
    /// Devices, adapters and interfaces of which something is known.
    pub things: Vec<ThingExpected>,
    /// What could not be observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blind_spots: Vec<BlindSpot>,
}

/// A device, adapter or interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThingExpected {
    /// Its id in the stack (`whyslow stack --json`).
    pub id: String,
    /// Its name, with its network namespace.
    pub name: String,
    /// What it is, in a few words: `RAID 5 of 4 members, chunk 512 KiB`.
    pub what: String,
    /// What it should deliver.
    pub rates: Vec<ExpectedRate>,
    /// Other layouts that would deliver more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layouts: Vec<LayoutGain>,
    /// What was assumed, or is missing, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What a thing should deliver of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectedRate {
    /// Of what: `random reads`, `throughput of the link`.
    pub what: String,
    /// How much.
    pub expected: f64,
    /// Its unit: `1/s` (requests or packets a second), `bytes/s` or `bit/s`.
    pub unit: String,
    /// How it follows, with the numbers: `4 members × 118 / 4`.
    pub formula: String,
    /// Where the formula is from.
    pub source: String,
    /// What it did while it was watched, which is less than it can where it had nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
}

/// Another layout, and how many times as much it would deliver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LayoutGain {
    /// The change: `RAID 10 of the same members`.
    pub change: String,
    /// How many times as much.
    pub times: f64,
    /// Of what.
    pub what: String,
    /// How it follows, with the numbers.
    pub formula: String,
    /// Where the formula is from.
    pub source: String,
    /// What it costs, or needs.
    pub cost: String,
}
