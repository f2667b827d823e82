//! What differs between two summaries, `whyslow.comparison/1`. Public interface, described in docs/compare.md. Fields may be
//! added; these stay.

use crate::baseline::Kind;
use crate::diagnosis::Subject;
use serde::{Deserialize, Serialize};

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.comparison/1";

/// What differs between two periods or benchmarks beyond what comes about by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// What is compared, and with what.
    pub a: Side,
    /// The other.
    pub b: Side,
    /// What the machines consist of, or how they are set, that is not the same; by name.
    pub inventory: Vec<Changed>,
    /// What differs beyond noise, the largest effect first.
    pub differences: Vec<Difference>,
    /// How many series both have.
    pub compared: usize,
    /// Those that differ by as much as matters, but were measured too briefly, or swing too much, to tell it from noise; the
    /// largest effect first.
    pub undecided: Vec<Difference>,
    /// What is to be borne in mind.
    pub caveats: Vec<String>,
}

/// One of the two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Side {
    /// As it was asked for.
    pub name: String,
    /// What it is a summary of.
    pub kind: Kind,
    /// When that began, RFC 3339.
    pub start: Option<String>,
    /// When it ended.
    pub end: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

/// Something of the machine's that is not the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// What.
    pub what: String,
    /// What it is in the first; `null` where that does not have it.
    pub a: Option<String>,
    /// And in the other.
    pub b: Option<String>,
}

/// A series, on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// What was measured.
    pub metric: String,
    /// Of what.
    pub subject: Subject,
    /// Unit of all values.
    pub unit: String,
    /// Whether the second is better; `null` where that depends.
    pub better: Option<bool>,
    /// In the first.
    pub a: Spread,
    /// In the other.
    pub b: Spread,
    /// How much more it is in the second: the Hodges-Lehmann estimate.
    pub shift: f64,
    /// The interval that holds the true shift at 95 %, by itself.
    pub low: f64,
    /// Its other end.
    pub high: f64,
    /// The same shift as a part of what it is in the first; `null` where that is zero.
    pub ratio: Option<f64>,
    /// What a shift must exceed to matter.
    pub least: f64,
    /// The probability of such a shift where there is none that matters, with all that was compared taken into account (Holm).
    pub p: f64,
}

/// What values there were.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one of the pieces compared.
    pub median: f64,
    /// Below it are 5 % of the values; `null` where their distribution is not known.
    pub p5: Option<f64>,
    /// Below it are 95 %.
    pub p95: Option<f64>,
    /// The pieces it was compared by: means over as long as makes one independent of the next.
    pub pieces: usize,
}
