//! What became of a diagnosis' proposals, tried one after the other.

use super::Trial;
use crate::diagnosis::Subject;
use serde::Serialize;

/// The document of `try --auto --json`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Walk {
    /// The finding whose actions were tried.
    pub id: String,
    /// What it is about.
    pub subject: Subject,
    /// The finding in a sentence.
    pub summary: String,
    /// What was tried, in order, and what was not.
    pub steps: Vec<WalkStep>,
    /// All that helped together against none of it, on fresh pairs; `None` where nothing helped.
    pub together: Option<Trial>,
    /// Whether it was ended early; all was put back then.
    pub interrupted: bool,
    /// The change that was kept; `None` where all was put back.
    pub kept: Option<u64>,
}

/// One proposal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WalkStep {
    /// The proposal in words.
    pub text: String,
    /// The settings.
    pub changes: Vec<String>,
    /// What came of it, on top of what had helped before.
    pub trial: Option<Trial>,
    /// Why it was not tried.
    pub skipped: Option<String>,
}

impl Walk {
    /// The middle of what was measured without and with all that helped.
    pub fn before_and_after(&self) -> Option<(f64, f64)> {
        self.together.as_ref()?.before_and_after()
    }
}
