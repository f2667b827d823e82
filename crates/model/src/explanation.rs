//! What happened over a recording, `whyslow.explanation/1`: a timeline of episodes. Fields may be added; these stay.

use crate::diagnosis::Diagnosis;
use serde::{Deserialize, Serialize};

/// The version this code writes.
pub const SCHEMA: &str = "whyslow.explanation/1";

/// What happened, oldest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The folder of the recording.
    pub recording: String,
    /// The first sample looked at, RFC 3339.
    pub start: String,
    /// The last.
    pub end: String,
    /// How many samples there were.
    pub samples: u64,
    /// How many more were due, and were not taken or not kept.
    pub missed: u64,
    /// The causes that cost time, one by one; effects are in their diagnoses.
    pub episodes: Vec<Episode>,
    /// What befell the recording itself: where it began, was suspended, lost samples, and where the clock was set.
    pub events: Vec<Event>,
}

/// A cause, from when it began to when it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Episode {
    /// When it began, RFC 3339.
    pub start: String,
    /// When it ended.
    pub end: String,
    /// From the one to the other.
    pub seconds: f64,
    /// The part of the time, 0..1, in which work was delayed by it, where it was worst.
    pub impact: f64,
    /// The mean of the same over the episode.
    pub mean_impact: f64,
    /// The key of the finding, `id@subject`.
    pub key: String,
    /// Keys of other episodes that overlap with it in time.
    pub overlaps: Vec<String>,
    /// What changed in the minute before it began, oldest first.
    pub before: Vec<Event>,
    /// The diagnosis of where it was worst; this cause is among its findings.
    pub diagnosis: Diagnosis,
}

/// Something that happened at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Event {
    /// When, RFC 3339.
    pub at: String,
    /// What.
    pub what: String,
}
