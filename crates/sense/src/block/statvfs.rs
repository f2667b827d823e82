//! statvfs(3) with a timeout: a server that does not answer must not hold up the other mounts.

use super::mountinfo::MountInfo;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// For servers and FUSE programs.
const TIMEOUT: Duration = Duration::from_millis(100);

/// File systems without a block device whose numbers are in this kernel's memory.
const LOCAL: &[&str] = &["bcachefs", "btrfs", "devtmpfs", "overlay", "ramfs", "squashfs", "tmpfs", "zfs"];

/// In bytes, and counts of inodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FsSpace {
    pub(super) size: u64,
    pub(super) free: u64,
    pub(super) available: u64,
    pub(super) inodes: u64,
    pub(super) inodes_free: u64,
}

#[derive(Default)]
pub(super) struct StatvfsCalls {
    /// Calls that have not returned, by mount point.
    pending: BTreeMap<String, Receiver<Option<FsSpace>>>,
}

impl StatvfsCalls {
    /// `None` if the call fails or times out.
    pub(super) fn space(&mut self, mount: &MountInfo) -> Option<FsSpace> {
        if is_local(mount) { statvfs(&mount.point) } else { self.with_timeout(&mount.point, statvfs) }
    }

    /// Drops calls to mounts that are gone.
    pub(super) fn retain(&mut self, mounted: impl Fn(&str) -> bool) {
        self.pending.retain(|point, _| mounted(point));
    }

    /// Calls in a thread of its own. While a call is pending, no other is made to its mount: a hung mount costs one sleeping thread and
    /// one delay.
    fn with_timeout(&mut self, point: &str, call: fn(&str) -> Option<FsSpace>) -> Option<FsSpace> {
        let (answer, timeout) = match self.pending.remove(point) {
            Some(pending) => (pending, Duration::ZERO),
            None => (spawn(point.to_owned(), call)?, TIMEOUT),
        };
        match answer.recv_timeout(timeout) {
            Ok(space) => space,
            Err(RecvTimeoutError::Timeout) => {
                self.pending.insert(point.to_owned(), answer);
                None
            }
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }
}

/// `None` if no thread can be started.
fn spawn(point: String, call: fn(&str) -> Option<FsSpace>) -> Option<Receiver<Option<FsSpace>>> {
    let (answer, receiver) = channel();
    // Sending fails if the receiver is gone.
    let run = move || drop(answer.send(call(&point)));
    thread::Builder::new().name("statvfs".into()).spawn(run).ok()?;
    Some(receiver)
}

/// Whether the kernel answers from memory. A FUSE program can also have a block device (fuseblk).
fn is_local(mount: &MountInfo) -> bool {
    !mount.kind.starts_with("fuse") && (!mount.number.starts_with("0:") || LOCAL.contains(&mount.kind.as_str()))
}

/// `None` without permission, or if the mount is gone.
fn statvfs(point: &str) -> Option<FsSpace> {
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
    use crate::block::mountinfo::parse;
    use crate::testing::wait_for;
    use std::sync::Mutex;
    use std::time::Instant;

    const SOME: FsSpace = FsSpace { size: 1, free: 1, available: 1, inodes: 1, inodes_free: 1 };

    #[test]
    fn a_hung_mount_costs_one_delay_and_answers_later() {
        static HANGS: Mutex<()> = Mutex::new(());
        fn late(_: &str) -> Option<FsSpace> {
            drop(HANGS.lock().unwrap());
            Some(SOME)
        }
        let hangs = HANGS.lock().unwrap();
        let mut calls = StatvfsCalls::default();
        assert_eq!(calls.with_timeout("/dead", late), None);
        // A wait is never shorter than the timeout; a return at once can be late on a busy machine, but not each time.
        let returns_at_once = |_| {
            let start = Instant::now();
            assert_eq!(calls.with_timeout("/dead", late), None);
            start.elapsed() < TIMEOUT
        };
        assert!((0..100).any(returns_at_once));
        drop(hangs);
        assert_eq!(wait_for("it answers", || calls.with_timeout("/dead", late)), SOME);
    }

    #[test]
    fn servers_and_fuse_programs_have_a_timeout() {
        let timed = |number: &str, kind: &str| {
            let line = format!("1 0 {number} / /m rw - {kind} x rw");
            !is_local(&parse(&line)[0])
        };
        assert!(timed("0:40", "nfs4") && timed("0:41", "fuse.sshfs") && timed("8:1", "fuseblk"));
        assert!(!timed("8:1", "ext4") && !timed("0:42", "tmpfs"));
    }

    #[test]
    fn a_missing_mount_has_no_space() {
        assert_eq!(statvfs("/no/such/wsl-block-mount"), None);
        assert_eq!(statvfs("nul\0byte"), None);
    }
}
