//! What cannot be read with certainty is refused, and said with file and line.

use std::fmt;
use whyslow_model::value::Name;

/// The longest piece of a line that is shown.
const SHOWN: usize = 120;

/// A place whose meaning is not certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The file.
    pub file: Name,
    /// The line, counted from 1.
    pub line: u32,
    /// What was expected there.
    pub expected: String,
    /// What stands there: the text of the line, or a description of it.
    pub found: String,
    /// Whether `found` describes what stands there. What is not recognised may be anything, also a secret, and is never quoted.
    pub described: bool,
}

impl Refusal {
    /// A place at which something else was expected.
    pub fn new(file: &Name, line: u32, expected: impl Into<String>, found: &str) -> Self {
        let mut shown: String = found.trim().chars().take(SHOWN).collect();
        if shown.len() < found.trim().len() {
            shown.push('…');
        }
        Self { file: file.clone(), line, expected: expected.into(), found: shown, described: false }
    }

    /// The same for what must not be quoted: `found` says in our words what stands there.
    pub fn described(file: &Name, line: u32, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self { file: file.clone(), line, expected: expected.into(), found: found.into(), described: true }
    }

    /// What was expected and what stands there, without the place.
    pub fn reason(&self) -> String {
        if self.described {
            format!("expected {}, found {}", self.expected, self.found)
        } else {
            format!("expected {}, found {:?}", self.expected, self.found)
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.reason())
    }
}

impl std::error::Error for Refusal {}
