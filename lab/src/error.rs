//! What can go wrong while a fault is made.

use std::fmt;

/// Why a trial gave no answer.
#[derive(Debug)]
pub enum Error {
    /// The machine lacks what the fault needs: the trial is skipped.
    Missing(String),
    /// SIGINT or SIGTERM came: everything is unwound.
    Interrupted,
    /// Anything else: the trial failed.
    Failed(String),
}

/// The lab's results.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(what) => write!(f, "missing: {what}"),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Failed(why) => f.write_str(why),
        }
    }
}

impl Error {
    /// A failure in words.
    pub fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }
}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Self {
        Self::Failed(e.to_string())
    }
}

impl From<nix::Error> for Error {
    fn from(e: nix::Error) -> Self {
        Self::Failed(e.desc().to_string())
    }
}

impl From<serde_json::Error> for Error {
    fn from(e: serde_json::Error) -> Self {
        Self::Failed(e.to_string())
    }
}

/// Says what was being done when an error came.
pub trait During<T> {
    /// Puts `what` before the error's own words.
    fn during(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: Into<Error>> During<T> for std::result::Result<T, E> {
    fn during(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|e| match e.into() {
            Error::Failed(why) => Error::Failed(format!("{what}: {why}")),
            other => other,
        })
    }
}
