//! Errors, each with the file or folder that it concerns.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Receives messages for the user, one line each.
pub type LogFn = Arc<dyn Fn(&str) + Send + Sync>;

/// A failure with a file or folder of a recording.
#[derive(Debug)]
pub struct StoreError {
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    Io(io::Error),
    Invalid(String),
    Shared(Arc<StoreError>),
}

impl StoreError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self { path, problem: Problem::Io(error) }
    }

    pub(crate) fn invalid(path: &Path, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), problem: Problem::Invalid(what.into()) }
    }

    pub(crate) fn parquet(path: &Path) -> impl FnOnce(parquet::errors::ParquetError) -> Self {
        let path = path.to_owned();
        move |error| match error {
            parquet::errors::ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(io) => Self { path, problem: Problem::Io(*io) },
                Err(other) => Self { path, problem: Problem::Invalid(other.to_string()) },
            },
            other => Self { path, problem: Problem::Invalid(other.to_string()) },
        }
    }

    /// Reports the same failure for other data that was to be written together.
    pub(crate) fn shared(error: &Arc<Self>) -> Self {
        Self { path: error.path.clone(), problem: Problem::Shared(error.clone()) }
    }

    /// Returns whether the file's content is at fault: it was truncated, changed, never belonged to a recording, or the
    /// device cannot read it.
    pub(crate) fn is_damage(&self) -> bool {
        match &self.problem {
            Problem::Io(error) => {
                matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
                    || error.raw_os_error() == Some(libc::EIO)
            }
            Problem::Invalid(_) => true,
            Problem::Shared(error) => error.is_damage(),
        }
    }

    /// Returns the kind of I/O error, if it is one.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match &self.problem {
            Problem::Io(error) => Some(error.kind()),
            Problem::Invalid(_) => None,
            Problem::Shared(error) => error.kind(),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::Io(error)
                if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists) =>
            {
                write!(f, "{} is not a folder: it, or a part of its path, is a file", self.path.display())
            }
            Problem::Io(error) => write!(f, "{}: {error}", self.path.display()),
            Problem::Shared(error) => error.fmt(f),
            Problem::Invalid(what) => write!(f, "{}: {what}", self.path.display()),
        }
    }
}

impl std::error::Error for StoreError {}
