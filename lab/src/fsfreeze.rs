//! Frozen file systems: every writer blocks until the file system is thawed.

use crate::error::{Context, Result};
use crate::testbed::Testbed;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

// FIFREEZE and FITHAW, include/uapi/linux/fs.h; the argument is not used.
nix::ioctl_readwrite!(fifreeze, b'X', 119, libc::c_int);
nix::ioctl_readwrite!(fithaw, b'X', 120, libc::c_int);

/// Freezes the file system at `dir` until the end of the trial.
///
/// # Errors
/// If the kernel refuses.
pub fn freeze(bed: &mut Testbed, dir: PathBuf) -> Result<()> {
    let file = File::open(&dir)?;
    // SAFETY: the descriptor is open, and the argument, which the kernel does not use, is a valid int.
    unsafe { fifreeze(file.as_raw_fd(), &mut 0) }.context("FIFREEZE")?;
    bed.defer(move || thaw_if_frozen(&dir));
    Ok(())
}

pub fn thaw_if_frozen(dir: &Path) {
    if let Ok(file) = File::open(dir) {
        // SAFETY: as above. The only usual error is EINVAL: not frozen.
        let _ = unsafe { fithaw(file.as_raw_fd(), &mut 0) };
    }
}
