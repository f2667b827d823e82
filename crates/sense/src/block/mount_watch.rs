//! When the mounts change: /proc/self/mountinfo can be polled (proc_pid_mounts(5)), which costs a fiftieth of reading it.

use super::mountinfo::{self, MountLine};
use crate::{Miss, Root, fd_cache};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// How long the mounts are believed when the kernel says nothing: a file system that turns read-only on an error does so
/// unannounced.
const BELIEVED: Duration = Duration::from_secs(5);

/// Watches the mounts of the running machine.
#[derive(Default)]
pub(crate) struct MountWatch {
    watched: Option<(File, Instant)>,
    /// What was read last.
    known: Vec<u8>,
}

impl MountWatch {
    /// The mounts where they have changed since the last call, `None` where they stand.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub(crate) fn changed(&mut self, root: &Root) -> Result<Option<Vec<MountLine>>, Miss> {
        if !root.is_live() {
            return mountinfo::read(root).map(Some);
        }
        let miss = |e| Miss::from_io(mountinfo::PATH, &e);
        let file = match self.watched.take() {
            Some((file, at)) if !announced(&file) && at.elapsed() < BELIEVED => {
                self.watched = Some((file, at));
                return Ok(None);
            }
            Some((file, _)) => file,
            None => File::open(root.at(mountinfo::PATH)).map_err(miss)?,
        };
        let bytes = fd_cache::read_all(&file).map_err(miss)?;
        self.watched = Some((file, Instant::now()));
        if bytes == self.known {
            return Ok(None);
        }
        let mounts = mountinfo::parse(&String::from_utf8_lossy(&bytes));
        self.known = bytes;
        Ok(Some(mounts))
    }
}

/// Whether a change was announced since the last call, or since the file was opened.
fn announced(mounts: &File) -> bool {
    let mut question = libc::pollfd { fd: mounts.as_raw_fd(), events: libc::POLLPRI, revents: 0 };
    // SAFETY: the pointer is to one pollfd, as the count says, and the call does not wait.
    unsafe { libc::poll(&raw mut question, 1, 0) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_mount_is_announced_once() {
        let root = Root::live();
        let mut watch = MountWatch::default();
        let all = watch.changed(&root).unwrap().expect("the first look finds them");
        assert!(all.iter().any(|m| m.point == "/"));
        // Other tests of this machine may mount something meanwhile.
        assert!((0..20).any(|_| watch.changed(&root).unwrap().is_none()));
        let point = tempfile::Builder::new().prefix("wsl-bench-").tempdir().unwrap();
        let ran =
            |command: &str| Command::new(command).arg("-n").args(["-t", "tmpfs", "none"]).arg(point.path()).status();
        if !ran("mount").is_ok_and(|status| status.success()) {
            return;
        }
        let seen = watch.changed(&root);
        let gone = Command::new("umount").arg(point.path()).status();
        assert!(seen.unwrap().unwrap().iter().any(|m| point.path().ends_with(m.point.trim_start_matches('/'))));
        assert!(gone.unwrap().success());
    }
}
