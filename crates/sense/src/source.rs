//! What every source has in common.

use crate::root::Root;
use whyslow_model::snapshot::{Outcome, Snapshot};

/// How often a source is worth reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tempo {
    /// Counters and levels: at every sample.
    Sample,
    /// Settings and inventory, which hardly change: at the first sample, and once a minute after that.
    Slow,
    /// What costs too much to be always on: at every sample from when it is asked for ([`Sampler::ask`](crate::Sampler::ask)).
    Asked,
}

/// One kernel source.
pub trait Source: Send {
    /// Its name, such as `proc/stat`.
    fn name(&self) -> &'static str;

    /// What it tells, in a few words, for a blind spot: `processor time by mode`.
    fn tells(&self) -> &'static str;

    /// How often to read it.
    fn tempo(&self) -> Tempo {
        Tempo::Sample
    }

    /// Does beforehand what takes long, such as loading programs into the kernel: the sources of the first sample are then read
    /// as close together as those of the later ones. What goes wrong is said when it is read.
    fn prepare(&mut self, _: &Root) {}

    /// Reads it into `out`, which holds nothing but what this source writes.
    ///
    /// # Errors
    /// What was missed and why. Rows written before the error are kept: a partial reading is a reading.
    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss>;
}

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
        Self::Failed(format!("/{path}: cannot make sense of {line:?}"))
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
