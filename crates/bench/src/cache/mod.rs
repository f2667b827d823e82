//! The page cache: what of a target is in it, and getting that out.

mod small;

pub(crate) use small::Small;

use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// struct cachestat_range and struct cachestat (include/uapi/linux/mman.h).
#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct Counts {
    cache: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The same number on every architecture (include/uapi/asm-generic/unistd.h).
const SYS_CACHESTAT: libc::c_long = 451;

/// Bytes of a file in the page cache (cachestat(2), since 6.5); none where the kernel does not tell.
pub(crate) fn cached(file: &File) -> Option<u64> {
    // A length of nothing is all of it.
    let range = Range { offset: 0, length: 0 };
    let mut found = Counts::default();
    // SAFETY: both structures are as the kernel's header has them, and live as long as the call.
    let status = unsafe { libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut found, 0) };
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok().flatten()?;
    (status == 0).then(|| found.cache * page as u64)
}

/// Drops what the page cache has of a file, and nothing else. What is still to be written is written first.
///
/// # Errors
/// Where it cannot be written, or the kernel refuses.
pub(crate) fn drop_cached(file: &File) -> io::Result<()> {
    // Only what was written to can fail to be; a file that is only read need not be synced, and may not be possible to.
    file.sync_data().or_else(|e| if e.raw_os_error() == Some(libc::EROFS) { Ok(()) } else { Err(e) })?;
    Ok(posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_dropped_is_not_cached() {
        let mut file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        let Some(before) = cached(&file) else { return };
        assert_eq!(before, 1 << 20);
        drop_cached(&file).unwrap();
        assert_eq!(cached(&file), Some(0));
    }
}
