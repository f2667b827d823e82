//! statvfs(3) of a mount point.

use std::ffi::CString;
use std::mem::MaybeUninit;

/// Space in bytes and counts of inodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FsSpace {
    pub(super) size: u64,
    pub(super) free: u64,
    pub(super) available: u64,
    pub(super) inodes: u64,
    pub(super) inodes_free: u64,
}

/// Returns `None` without permission, or if the mount is gone.
pub(super) fn statvfs(point: &str) -> Option<FsSpace> {
    let path = CString::new(point).ok()?;
    let mut answer = MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: `path` is a C string and `answer` has room for one statvfs; both outlive the call.
    let status = unsafe { libc::statvfs(path.as_ptr(), answer.as_mut_ptr()) };
    if status != 0 {
        return None;
    }
    // SAFETY: the call succeeded, and then it has filled `answer`.
    let answer = unsafe { answer.assume_init() };
    let bytes = |blocks: libc::fsblkcnt_t| blocks.saturating_mul(answer.f_frsize);
    Some(FsSpace {
        size: bytes(answer.f_blocks),
        free: bytes(answer.f_bfree),
        available: bytes(answer.f_bavail),
        inodes: answer.f_files,
        inodes_free: answer.f_ffree,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_mount_has_no_space() {
        assert_eq!(statvfs("/no/such/wsl-block-mount"), None);
        assert_eq!(statvfs("nul\0byte"), None);
    }
}
