//! Free space of the file system, and how many samples may be recorded.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Fraction of free space below which only some samples are recorded.
const LITTLE: f64 = 0.05;
/// Fraction of free space below which no samples are recorded.
const NONE: f64 = 0.02;
/// One sample in this many is recorded when there is little space.
pub(super) const KEEP_ONE_IN: u64 = 10;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SpaceLevel {
    #[default]
    Enough,
    /// Less than 5 %.
    Little,
    /// Less than 2 %.
    None,
}

impl SpaceLevel {
    /// Reads the free space on the file system of `path` (statvfs(3)).
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let path = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: statvfs consists of plain numbers, for which zero is a valid value.
        let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: the path ends in a zero byte and `stat` is writable; both outlive the call.
        if unsafe { libc::statvfs(path.as_ptr(), &raw mut stat) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self::from_fraction(stat.f_bavail as f64 / (stat.f_blocks as f64).max(1.0)))
    }

    fn from_fraction(fraction: f64) -> Self {
        match fraction {
            f if f < NONE => Self::None,
            f if f < LITTLE => Self::Little,
            _ => Self::Enough,
        }
    }

    /// Returns the log message that announces this level.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Enough => "there is space again: every sample is recorded",
            Self::Little => "less than 5 % of the file system is free: one sample in ten is recorded",
            Self::None => "less than 2 % of the file system is free: nothing is recorded until there is more",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_depends_on_the_fraction() {
        assert_eq!([0.5, 0.05, 0.049, 0.02, 0.019, 0.0].map(SpaceLevel::from_fraction), {
            use SpaceLevel::*;
            [Enough, Enough, Little, Little, None, None]
        });
        SpaceLevel::at(Path::new("/")).unwrap();
        assert!(SpaceLevel::at(Path::new("/no/such/folder")).is_err());
    }
}
