//! What there is to say of a recording.

use serde::Serialize;

/// What `whyslow record` did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Recorded {
    /// The folder it recorded into.
    pub folder: String,
    /// Samples that were kept.
    pub samples: u64,
    /// Samples that were due, and were not taken or not kept.
    pub missed: u64,
    /// Samples recorded before that were found damaged on disk beyond repair.
    pub lost: u64,
}
