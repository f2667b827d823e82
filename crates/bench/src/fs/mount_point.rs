//! Mounts that no other program sees, and runs the programs that create and mount file systems.

use crate::{Error, Result, remove_leftovers};
use nix::sched::{CloneFlags, unshare};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Number of attempts: udev briefly opens a device after it was written.
const ATTEMPTS: u32 = 10;
const AGAIN: Duration = Duration::from_millis(200);
const PREFIX: &str = "whyslow-bench-mount-";

/// A folder to mount on, in a mount namespace of this program.
pub(super) struct MountPoint {
    path: PathBuf,
}

impl MountPoint {
    pub(super) fn new() -> Result<Self> {
        let folder = std::env::temp_dir();
        remove_leftovers(&folder, PREFIX, |path, _| fs::remove_dir(path));
        let failed = |e: nix::Error| Error::new(format!("cannot make a mount namespace: {e} (needs root)"));
        unshare(CloneFlags::CLONE_NEWNS).map_err(failed)?;
        run("mount", &["--make-rprivate", "/"])?;
        let path = folder.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(|e| Error::at(&path, "cannot create the folder", &e))?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn unmount(&self) -> Result<()> {
        run_patiently("umount", &[&self.path.to_string_lossy()])
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        // Still mounted only after an error; the kernel removes the mount with the program in any case.
        if fs::remove_dir(&self.path).is_err() {
            let _ = self.unmount();
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Runs a program; retries while udev may have the device open.
pub(super) fn run_patiently(program: &str, args: &[&str]) -> Result<()> {
    let mut done = run(program, args);
    for _ in 1..ATTEMPTS {
        if done.is_ok() {
            break;
        }
        sleep(AGAIN);
        done = run(program, args);
    }
    done
}

pub(super) fn run(program: &str, args: &[&str]) -> Result<()> {
    let failed = |why: &str| Error::new(format!("{program} {}: {why}", args.join(" ")));
    let done = Command::new(program).args(args).stdin(Stdio::null()).output().map_err(|e| failed(&e.to_string()))?;
    let said = String::from_utf8_lossy(&done.stderr);
    if done.status.success() { Ok(()) } else { Err(failed(said.trim().lines().last().unwrap_or("failed"))) }
}
