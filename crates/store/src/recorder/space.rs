//! How much of the file system is left, and what that allows.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Below this share of free space one sample in ten is kept.
const LITTLE: f64 = 0.05;
/// Below this none is.
const NONE: f64 = 0.02;
/// The samples of which one is kept where space is short.
pub(super) const THINNED: u64 = 10;

/// What is left on the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Space {
    /// Enough.
    #[default]
    Enough,
    /// Less than 5 %: samples are thinned out.
    Little,
    /// Less than 2 %: nothing is recorded.
    None,
}

impl Space {
    /// What is left where `path` is (statvfs(3)).
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: statvfs is plain numbers, for which zero is a value.
        let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: the path ends in a zero byte and `stat` is writable; both outlive the call.
        if unsafe { libc::statvfs(path.as_ptr(), &raw mut stat) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self::of(stat.f_bavail as f64 / (stat.f_blocks as f64).max(1.0)))
    }

    /// What a share of free space (0..1) allows.
    fn of(free: f64) -> Self {
        match free {
            f if f < NONE => Self::None,
            f if f < LITTLE => Self::Little,
            _ => Self::Enough,
        }
    }

    /// What the recorder does about it, for the log.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Enough => "there is space again: every sample is kept",
            Self::Little => "less than 5 % of the file system is free: one sample in ten is kept",
            Self::None => "less than 2 % of the file system is free: nothing is recorded until there is more",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_told_by_its_share() {
        assert_eq!([0.5, 0.05, 0.049, 0.02, 0.019, 0.0].map(Space::of), {
            use Space::*;
            [Enough, Enough, Little, Little, None, None]
        });
        assert!(Space::at(Path::new("/")).is_ok());
        assert!(Space::at(Path::new("/no/such/folder")).is_err());
    }
}
