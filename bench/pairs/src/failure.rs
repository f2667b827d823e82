//! Errors of a measurement.

use std::fmt;

/// Reason why there is no measurement.
#[derive(Debug)]
pub struct Failure(String);

/// A measurement, or the reason why there is none.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// Creates an error with this text.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<std::io::Error> for Failure {
    fn from(e: std::io::Error) -> Self {
        Self(e.to_string())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(e: serde_json::Error) -> Self {
        Self(e.to_string())
    }
}
