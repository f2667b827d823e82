//! Errors of sources.

use whyslow_model::snapshot::ReadOutcome;

/// Reason why a source, or a part of it, could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceError {
    /// This kernel or machine does not have the source.
    Absent(String),
    /// The observer may not read the source.
    NotPermitted {
        /// The access that was refused.
        why: String,
        /// The action that would allow it.
        remedy: String,
    },
    /// Reading failed, or the content was malformed.
    Failed(String),
}

impl SourceError {
    /// Classifies an error of reading `/path` by its errno.
    pub fn from_io(path: &str, error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
        match error.kind() {
            NotFound | NotADirectory => Self::Absent(format!("/{path} does not exist")),
            PermissionDenied => {
                Self::NotPermitted { why: format!("/{path}: permission denied"), remedy: "run as root".into() }
            }
            _ if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENODEV)) => {
                Self::Absent(format!("/{path}: {error}"))
            }
            _ => Self::Failed(format!("/{path}: {error}")),
        }
    }

    /// Returns the reason, without a remedy.
    pub fn why(&self) -> &str {
        match self {
            Self::Absent(why) | Self::Failed(why) | Self::NotPermitted { why, .. } => why,
        }
    }

    /// Reports a line of `/path` that does not follow the kernel's documentation.
    pub fn malformed(path: &str, line: &str) -> Self {
        Self::Failed(format!("/{path}: unexpected content {line:?}"))
    }
}

impl From<SourceError> for ReadOutcome {
    fn from(error: SourceError) -> Self {
        match error {
            SourceError::Absent(why) => Self::Absent(why),
            SourceError::NotPermitted { why, remedy } => Self::NotPermitted { why, remedy },
            SourceError::Failed(why) => Self::Failed(why),
        }
    }
}
