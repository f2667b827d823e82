//! Error with file and line for input that cannot be read with certainty.

use std::fmt;
use whyslow_model::value::Name;

/// Maximum number of characters of a line to quote.
const SHOWN: usize = 120;

/// Place where the input stopped making sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Name of the file.
    pub file: Name,
    /// Line number, counted from 1.
    pub line: u32,
    /// Expected input at that place.
    pub expected: String,
    /// The text of the line, or a description of it.
    pub found: String,
    /// Whether `found` is a description. Unrecognized text may contain secrets and is never quoted.
    pub described: bool,
}

impl Refusal {
    /// Creates a refusal that quotes the line.
    pub fn new(file: &Name, line: u32, expected: impl Into<String>, found: &str) -> Self {
        let mut shown: String = found.trim().chars().take(SHOWN).collect();
        if shown.len() < found.trim().len() {
            shown.push('…');
        }
        Self { file: file.clone(), line, expected: expected.into(), found: shown, described: false }
    }

    /// Creates a refusal that describes what was found, without quoting it.
    pub fn described(file: &Name, line: u32, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { file: file.clone(), line, expected: expected.into(), found: found.into(), described: true }
    }

    /// Returns what was expected and found, without file and line.
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
