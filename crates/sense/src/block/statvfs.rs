//! statvfs(3), guarded: a server that does not answer must not take the other mounts with it.

use super::mountinfo::MountLine;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How long to wait for the answer of a server or FUSE program.
const PATIENCE: Duration = Duration::from_millis(100);

/// File systems without a block device of their own whose numbers this kernel knows itself.
const LOCAL: &[&str] = &["bcachefs", "btrfs", "devtmpfs", "overlay", "ramfs", "squashfs", "tmpfs", "zfs"];

/// Space and inodes of a file system: bytes, and counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) size: u64,
    pub(super) free: u64,
    pub(super) available: u64,
    pub(super) inodes: u64,
    pub(super) inodes_free: u64,
}

/// Asks for the space of mounts; remembers which did not answer yet.
#[derive(Default)]
pub(super) struct Spaces {
    waiting: BTreeMap<String, Receiver<Option<Space>>>,
}

impl Spaces {
    /// The space of a mount; `None` where it cannot be asked or does not answer in time.
    pub(super) fn of(&mut self, mount: &MountLine) -> Option<Space> {
        if answers_at_once(mount) { statvfs(&mount.point) } else { self.guarded(&mount.point, statvfs) }
    }

    /// Forgets questions to mounts that are gone.
    pub(super) fn forget_all_but(&mut self, mounted: impl Fn(&str) -> bool) {
        self.waiting.retain(|point, _| mounted(point));
    }

    /// Asks in a thread of its own. While a mount owes an answer it is not asked again, nor waited for: it costs one
    /// sleeping thread, and one delay.
    fn guarded(&mut self, point: &str, ask: fn(&str) -> Option<Space>) -> Option<Space> {
        let (answer, patience) = match self.waiting.remove(point) {
            Some(pending) => (pending, Duration::ZERO),
            None => (asked(point.to_owned(), ask)?, PATIENCE),
        };
        match answer.recv_timeout(patience) {
            Ok(space) => space,
            Err(RecvTimeoutError::Timeout) => {
                self.waiting.insert(point.to_owned(), answer);
                None
            }
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }
}

/// Starts a thread that asks; `None` where there can be no more threads.
fn asked(point: String, ask: fn(&str) -> Option<Space>) -> Option<Receiver<Option<Space>>> {
    let (answer, receiver) = channel();
    // Where nobody waits for the answer any more, it goes nowhere.
    let question = move || drop(answer.send(ask(&point)));
    thread::Builder::new().name("statvfs".into()).spawn(question).ok()?;
    Some(receiver)
}

/// Whether statvfs is answered by this kernel from memory. A FUSE program can also sit on a block device (fuseblk).
fn answers_at_once(mount: &MountLine) -> bool {
    !mount.kind.starts_with("fuse") && (!mount.number.starts_with("0:") || LOCAL.contains(&mount.kind.as_str()))
}

/// `None` where the call fails: no permission, or the mount is gone.
fn statvfs(point: &str) -> Option<Space> {
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
    Some(Space {
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
    use std::time::Instant;

    const SOME: Space = Space { size: 1, free: 1, available: 1, inodes: 1, inodes_free: 1 };

    #[test]
    fn a_mount_that_hangs_costs_one_delay_and_answers_later() {
        fn late(_: &str) -> Option<Space> {
            thread::sleep(3 * PATIENCE);
            Some(SOME)
        }
        let mut spaces = Spaces::default();
        assert_eq!(spaces.guarded("/dead", late), None);
        let start = Instant::now();
        assert_eq!(spaces.guarded("/dead", late), None);
        assert!(start.elapsed() < PATIENCE);
        thread::sleep(4 * PATIENCE);
        assert_eq!(spaces.guarded("/dead", late), Some(SOME));
    }

    #[test]
    fn servers_and_fuse_programs_are_guarded() {
        let guarded = |number: &str, kind: &str| {
            let line = format!("1 0 {number} / /m rw - {kind} x rw");
            !answers_at_once(&super::super::mountinfo::parse(&line)[0])
        };
        assert!(guarded("0:40", "nfs4") && guarded("0:41", "fuse.sshfs") && guarded("8:1", "fuseblk"));
        assert!(!guarded("8:1", "ext4") && !guarded("0:42", "tmpfs"));
    }

    #[test]
    fn no_such_mount_has_no_space() {
        assert_eq!(statvfs("/no/such/wsl-block-mount"), None);
        assert_eq!(statvfs("nul\0byte"), None);
    }
}
