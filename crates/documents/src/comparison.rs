//! Differences between two summaries, `whyslow.comparison/1`: a public interface, described in docs/compare.md. Fields may be
//! added, existing ones do not change.

use crate::baseline::BaselineKind;
use crate::diagnosis::Subject;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.comparison/1";

/// What differs between two periods or benchmarks beyond noise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The first side.
    pub a: Side,
    /// The second side.
    pub b: Side,
    /// Differences in hardware and settings, by name.
    pub inventory: Vec<Changed>,
    /// Differences beyond noise, the largest effect first.
    pub differences: Vec<Difference>,
    /// Number of series that both have.
    pub compared: usize,
    /// Differences large enough to matter, but measured too briefly or too variable to distinguish from noise; the largest
    /// effect first.
    pub undecided: Vec<Difference>,
    /// What an experiment shows, in sentences; only of captures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conclusions: Vec<String>,
    /// Caveats.
    pub caveats: Vec<String>,
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// As given on the command line.
    pub name: String,
    /// What it summarizes.
    pub kind: BaselineKind,
    /// Start time, RFC 3339.
    pub start: Option<String>,
    /// End time.
    pub end: Option<String>,
    /// Duration, seconds.
    pub seconds: f64,
}

/// A difference in hardware or settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// Its name.
    pub what: String,
    /// The value on the first side; `null` if missing there.
    pub a: Option<String>,
    /// The value on the second side.
    pub b: Option<String>,
}

/// A series on both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// What was measured.
    pub metric: String,
    /// The entity that was measured.
    pub subject: Subject,
    /// Unit of all values.
    pub unit: String,
    /// Whether the second side is better; `null` if that depends.
    pub better: Option<bool>,
    /// Values on the first side.
    pub a: Spread,
    /// Values on the second side.
    pub b: Spread,
    /// The shift from the first side to the second: the Hodges-Lehmann estimate.
    pub shift: f64,
    /// Lower end of its 95 % confidence interval, unadjusted.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The shift relative to the first side; `null` if that is zero.
    pub ratio: Option<f64>,
    /// The smallest shift that matters.
    pub least: f64,
    /// The probability of such a shift if there is none that matters, adjusted for the number of comparisons (Holm).
    pub p: f64,
}

/// The distribution of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// The median of the blocks compared.
    pub median: f64,
    /// The 5th percentile of the values; `null` if their distribution is not known.
    pub p5: Option<f64>,
    /// The 95th percentile.
    pub p95: Option<f64>,
    /// The blocks compared: means over periods long enough to be independent.
    pub pieces: usize,
}
