use std::fmt;
use std::io;
use std::path::Path;

/// Why a benchmark cannot run: what, where, and what to do. One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with this text.
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    /// What failed on a path.
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
