//! The outcome of trying a diagnosis's actions, one after the other.

use super::Trial;
use crate::diagnosis::Subject;
use serde::Serialize;

/// The document of `try --auto --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Walk {
    /// The finding whose actions were tried.
    pub id: String,
    /// Its subject.
    pub subject: Subject,
    /// The finding in one sentence.
    pub summary: String,
    /// The actions, in order, tried or not.
    pub steps: Vec<WalkStep>,
    /// All changes that helped together, against none of them, on fresh pairs; `None` if nothing helped.
    pub together: Option<Trial>,
    /// Whether it was ended early; everything was rolled back then.
    pub interrupted: bool,
    /// The transaction that was kept; `None` if everything was rolled back.
    pub kept: Option<u64>,
}

/// One action.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WalkStep {
    /// The action in words.
    pub text: String,
    /// The settings.
    pub changes: Vec<String>,
    /// The trial, on top of the changes that helped before.
    pub trial: Option<Trial>,
    /// Why it was not tried.
    pub skipped: Option<String>,
}

impl Walk {
    /// The medians without the changes and with all that helped.
    pub fn before_and_after(&self) -> Option<(f64, f64)> {
        self.together.as_ref()?.before_and_after()
    }
}
