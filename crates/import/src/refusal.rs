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
    /// What stands there.
    pub found: String,
}

impl Refusal {
    /// A place at which something else was expected.
    pub fn new(file: &Name, line: u32, expected: impl Into<String>, found: &str) -> Self {
        let mut shown: String = found.trim().chars().take(SHOWN).collect();
        if shown.len() < found.trim().len() {
            shown.push('…');
        }
        Self { file: file.clone(), line, expected: expected.into(), found: shown }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: expected {}, found {:?}", self.file, self.line, self.expected, self.found)
    }
}

impl std::error::Error for Refusal {}
