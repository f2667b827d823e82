//! Input that cannot be read with certainty, as an error with file and line.

use std::fmt;
use whyslow_model::value::Name;

/// The longest part of a line that is shown.
const SHOWN: usize = 120;

/// Where the input stopped making sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The file.
    pub file: Name,
    /// The line, counted from 1.
    pub line: u32,
    /// What was expected there.
    pub expected: String,
    /// The text of the line, or a description of it.
    pub found: String,
    /// Whether `found` is a description. Unrecognized text may contain secrets and is never quoted.
    pub described: bool,
}

impl Refusal {
    /// Quotes the line.
    pub fn new(file: &Name, line: u32, expected: impl Into<String>, found: &str) -> Self {
        let mut shown: String = found.trim().chars().take(SHOWN).collect();
        if shown.len() < found.trim().len() {
            shown.push('…');
        }
        Self { file: file.clone(), line, expected: expected.into(), found: shown, described: false }
    }

    /// Describes what was found without quoting it.
    pub fn described(file: &Name, line: u32, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { file: file.clone(), line, expected: expected.into(), found: found.into(), described: true }
    }

    /// What was expected and found, without file and line.
    pub fn reason(&self) -> String {
        let Self { expected, found, .. } = self;
        if self.described {
            format!("expected {expected}, found {found}")
        } else {
            format!("expected {expected}, found {found:?}")
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.reason())
    }
}

impl std::error::Error for Refusal {}
