//! Removes what a killed run left behind, which it recognises by the lab's own names.

use crate::cgroup;
use crate::command;
use crate::disk::{thaw_if_frozen, unmount};
use crate::error::{Context, Error, Result};
use crate::kernel_setting;
use crate::program::kill_all_in;
use crate::swap;
use crate::testbed::{WORK, entries};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Takes the lab's lock: only one lab runs at a time, so everything with its names is a leftover.
pub fn lock() -> Result<Flock<File>> {
    let file = File::create("/run/wslab.lock").context("/run/wslab.lock")?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| Error::failed("another whyslow-lab is running"))
}

/// Removes all leftovers, from the top of the storage stack down.
pub fn remove_all() {
    kill_all_in(Path::new(WORK));
    let mut mounts = mounts();
    mounts.iter().for_each(|dir| thaw_if_frozen(dir));
    swap::remove_leftovers();
    kernel_setting::restore_leftovers();
    mounts.reverse();
    for dir in mounts {
        detach_loops(&dir);
        unmount(&dir);
    }
    for ns in entries("/run/netns") {
        command::run_cleanup("ip", &["netns", "del", &ns]);
    }
    cgroup::remove_leftovers();
    drop(fs::remove_dir_all(WORK));
}

/// Returns the mounts below the lab's directory, oldest first.
fn mounts() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let dirs = text.lines().filter_map(|line| line.split(' ').nth(1));
    dirs.filter(|dir| dir.starts_with(WORK)).map(PathBuf::from).collect()
}

/// Detaches the loop devices over files in a directory.
fn detach_loops(dir: &Path) {
    for device in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let file = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(file.trim_end()).starts_with(dir) {
            let node = format!("/dev/{}", device.file_name().to_string_lossy());
            swap::off(&node);
            command::run_cleanup("losetup", &["-d", &node]);
        }
    }
}
