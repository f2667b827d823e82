//! Profiles: many settings under one name.

use serde::{Deserialize, Serialize};

/// A profile that there is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileInfo {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub summary: String,
    /// Where it is read from: a path from the root, or `built in/NAME`.
    pub place: String,
}

/// What a profile asks for and does not get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileNote {
    /// The section.
    pub unit: String,
    /// The option.
    pub option: String,
    /// Its value.
    pub value: String,
    /// Why nothing is done about it, and what to do instead.
    pub why: String,
}

/// A profile that fits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recommendation {
    /// Its name.
    pub profile: String,
    /// Why it fits.
    pub why: String,
}
