//! Profiles: named sets of settings.

use serde::{Deserialize, Serialize};

/// An available profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileInfo {
    /// Its name.
    pub name: String,
    /// Its purpose.
    pub summary: String,
    /// Where it is read from: a path from the root, or `built in/NAME`.
    pub place: String,
}

/// A part of a profile that is not applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// A recommended profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recommendation {
    /// Its name.
    pub profile: String,
    /// The reason.
    pub why: String,
}
