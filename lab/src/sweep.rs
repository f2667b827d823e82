//! What an earlier run left behind because it was killed: found by the lab's own names, and removed.

use crate::cgroup;
use crate::disk::unmount;
use crate::error::{During, Error, Result};
use crate::fsfreeze;
use crate::stage::{PREFIX, WORK};
use crate::swap;
use crate::tool;
use crate::zram;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Takes the lab's lock, so that only one lab runs at a time and whatever bears its names is a leftover. It is held as
/// long as the result lives.
///
/// # Errors
/// Where another lab runs.
pub fn lock() -> Result<Flock<File>> {
    let file = File::create("/run/wslab.lock").during("/run/wslab.lock")?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|_| Error::failed("another whyslow-lab is running"))
}

/// Removes leftovers, what is uppermost first.
pub fn leftovers() {
    let mut mounts = mounts();
    mounts.iter().for_each(|dir| fsfreeze::thaw_quietly(dir));
    zram::sweep();
    mounts.reverse();
    for dir in mounts {
        detach_loops(&dir);
        unmount(&dir);
    }
    for ns in names("/run/netns") {
        tool::undo("ip", &["netns", "del", &ns]);
    }
    for hierarchy in fs::read_dir(cgroup::ROOT).into_iter().flatten().flatten() {
        for name in names(hierarchy.path()) {
            cgroup::remove(&hierarchy.path().join(name));
        }
    }
    drop(fs::remove_dir_all(WORK));
}

/// The mounts below the lab's folder, in the order they were made.
fn mounts() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let dirs = text.lines().filter_map(|line| line.split(' ').nth(1));
    dirs.filter(|dir| dir.starts_with(WORK)).map(PathBuf::from).collect()
}

/// Detaches the loop devices whose file lies in a folder.
fn detach_loops(dir: &Path) {
    for device in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let file = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(file.trim_end()).starts_with(dir) {
            let node = format!("/dev/{}", device.file_name().to_string_lossy());
            swap::off(&node);
            tool::undo("losetup", &["-d", &node]);
        }
    }
}

/// The entries of a folder that the lab has named.
fn names(dir: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).filter(|n| n.starts_with(PREFIX)).collect()
}
