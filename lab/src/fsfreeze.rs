//! Freezing a file system: every writer to it is stuck until it is thawed.

use crate::error::{During, Result};
use crate::stage::Stage;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

// FIFREEZE and FITHAW, include/uapi/linux/fs.h; the argument is not used.
nix::ioctl_readwrite!(fifreeze, b'X', 119, libc::c_int);
nix::ioctl_readwrite!(fithaw, b'X', 120, libc::c_int);

/// Freezes the file system at `dir` until the end of the trial.
///
/// # Errors
/// Where the kernel refuses.
pub fn freeze(stage: &mut Stage, dir: PathBuf) -> Result<()> {
    let file = File::open(&dir)?;
    // SAFETY: the descriptor is open, and the argument, which the kernel does not use, is a valid int.
    unsafe { fifreeze(file.as_raw_fd(), &mut 0) }.during("FIFREEZE")?;
    stage.undo(move || thaw_quietly(&dir));
    Ok(())
}

/// Thaws a file system if it is frozen.
pub fn thaw_quietly(dir: &Path) {
    if let Ok(file) = File::open(dir) {
        // SAFETY: as above. The only usual error is EINVAL: not frozen.
        let _ = unsafe { fithaw(file.as_raw_fd(), &mut 0) };
    }
}
