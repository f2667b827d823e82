//! What keeps a benchmark from being run.

use std::fmt;
use std::io;
use std::path::Path;

/// Why there are no numbers: what, where, and what to do about it. One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

/// What is made, or why not.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// In these words.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    /// What the system answered to what was done with `path`.
    pub(crate) fn at(path: &Path, doing: &str, error: &io::Error) -> Self {
        Self(format!("{}: {doing}: {error}", path.display()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
