//! What went wrong with a recording, and where.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// What went wrong with a file or folder of a recording.
#[derive(Debug)]
pub struct StoreError {
    path: PathBuf,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    Io(io::Error),
    Senseless(String),
}

impl StoreError {
    /// The kernel refused it.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self { path, problem: Problem::Io(error) }
    }

    /// It is there, and makes no sense.
    pub(crate) fn senseless(path: &Path, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), problem: Problem::Senseless(what.into()) }
    }

    /// Something of the parquet library's.
    pub(crate) fn parquet(path: &Path) -> impl FnOnce(parquet::errors::ParquetError) -> Self {
        let path = path.to_owned();
        move |error| match error {
            parquet::errors::ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(io) => Self { path, problem: Problem::Io(*io) },
                Err(other) => Self { path, problem: Problem::Senseless(other.to_string()) },
            },
            other => Self { path, problem: Problem::Senseless(other.to_string()) },
        }
    }

    /// Whether what is in the file is the reason: it was cut or changed, or was never a recording's. A device that cannot read
    /// it back is one too.
    pub(crate) fn is_damage(&self) -> bool {
        match &self.problem {
            Problem::Io(error) => {
                matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
                    || error.raw_os_error() == Some(libc::EIO)
            }
            Problem::Senseless(_) => true,
        }
    }

    /// The kernel's reason, where it was the kernel that refused.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match &self.problem {
            Problem::Io(error) => Some(error.kind()),
            Problem::Senseless(_) => None,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::Io(error) => write!(f, "{}: {error}", self.path.display()),
            Problem::Senseless(what) => write!(f, "{}: {what}", self.path.display()),
        }
    }
}

impl std::error::Error for StoreError {}
