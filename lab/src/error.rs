//! Errors of a trial.

use std::fmt;

#[derive(Debug)]
pub enum Error {
    /// The machine lacks what the trial needs: the trial is skipped.
    Missing(String),
    /// SIGINT or SIGTERM: everything is torn down.
    Interrupted,
    /// Any other error: the trial failed.
    Failed(String),
}

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

/// Adds context to an error.
pub trait Context<T> {
    /// Prefixes the error's own message with `what`.
    fn context(self, what: impl fmt::Display) -> Result<T>;
}

impl<T, E: Into<Error>> Context<T> for std::result::Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|e| match e.into() {
            Error::Failed(why) => Error::Failed(format!("{what}: {why}")),
            other => other,
        })
    }
}
