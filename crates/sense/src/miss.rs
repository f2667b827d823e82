//! Why something could not be read.

use whyslow_model::snapshot::Outcome;

/// Why a source, or a part of it, could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// This kernel or machine does not have it.
    Absent(String),
    /// We may not read it; `remedy` says what would allow it.
    NotPermitted {
        /// What was refused.
        why: String,
        /// What would allow it.
        remedy: String,
    },
    /// Reading failed, or what was read made no sense.
    Failed(String),
}

impl Miss {
    /// Sorts an error of reading `path` into absent, not permitted and failed.
    pub fn from_io(path: &str, error: &std::io::Error) -> Self {
        use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
        match error.kind() {
            NotFound | NotADirectory => Self::Absent(format!("/{path} does not exist")),
            PermissionDenied => {
                Self::NotPermitted { why: format!("/{path}: permission denied"), remedy: "run as root".into() }
            }
            _ if error.raw_os_error() == Some(libc::EOPNOTSUPP) || error.raw_os_error() == Some(libc::ENODEV) => {
                Self::Absent(format!("/{path}: {error}"))
            }
            _ => Self::Failed(format!("/{path}: {error}")),
        }
    }

    /// A line that is not what the kernel document says.
    pub fn malformed(path: &str, line: &str) -> Self {
        Self::Failed(format!("/{path}: cannot parse {line:?}"))
    }
}

impl From<Miss> for Outcome {
    fn from(miss: Miss) -> Self {
        match miss {
            Miss::Absent(why) => Self::Absent(why),
            Miss::NotPermitted { why, remedy } => Self::NotPermitted { why, remedy },
            Miss::Failed(why) => Self::Failed(why),
        }
    }
}
