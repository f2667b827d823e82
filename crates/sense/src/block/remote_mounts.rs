//! Mounts whose answer depends on a server or a FUSE program, and a check that they respond.

use super::mountinfo::{self, MountInfo};
use super::remote_helper::{Answer, Helper};
use super::statvfs::{FsSpace, statvfs};
use crate::Root;
use std::collections::BTreeMap;
use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time limit for servers and FUSE programs.
const TIMEOUT: Duration = Duration::from_millis(100);
/// A mount that did not answer is not asked again within this time.
const RETRY: Duration = Duration::from_secs(60);
/// Time for which an earlier answer proves that a mount responds.
const FRESH: Duration = Duration::from_secs(5);

/// File systems without a block device that answer from this kernel's memory.
const LOCAL: &[&str] = &["bcachefs", "btrfs", "devtmpfs", "overlay", "ramfs", "squashfs", "tmpfs", "zfs"];

/// Result of a query for a mount's space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Known(FsSpace),
    /// Not permitted, the mount is gone, or it cannot be queried here.
    Unknown,
    /// Its server or FUSE program does not answer.
    Silent,
}

#[derive(Default)]
struct RemoteMounts {
    helper: Option<Helper>,
    /// Mounts that did not answer, by [`name`].
    silent: BTreeMap<String, SilentMount>,
    answered: BTreeMap<String, Instant>,
}

struct SilentMount {
    since: Instant,
    /// The helper that is stuck in it.
    stuck: Option<Child>,
}

/// One instance for the whole program: if each source asked by itself, each would leave a helper behind.
static MOUNTS: Mutex<Option<RemoteMounts>> = Mutex::new(None);

/// Queries the space of a mounted file system. Never hangs.
pub(super) fn space(root: &Root, mount: &MountInfo) -> Space {
    if is_local(mount) {
        return statvfs(&mount.point).map_or(Space::Unknown, Space::Known);
    }
    let mut mounts = MOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    mounts.get_or_insert_default().space(root, mount)
}

/// Whether the file at a path can be used without waiting for a server or FUSE program that does not answer. The path must not
/// contain symbolic links.
pub fn answers(root: &Root, path: &str) -> bool {
    if !root.is_live() {
        return true;
    }
    let mounts = mountinfo::read(root).unwrap_or_default();
    let Some(mount) = mountinfo::holder(&mounts, path).filter(|mount| !is_local(mount)) else { return true };
    let mut mounts = MOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let mounts = mounts.get_or_insert_default();
    let is_fresh = mounts.answered.get(&name(root, mount)).is_some_and(|at| at.elapsed() < FRESH);
    is_fresh || matches!(mounts.space(root, mount), Space::Known(_))
}

/// Like [`answers`], for a path in the mount namespace of a process.
pub(crate) fn answers_process(root: &Root, pid: u32, path: &str) -> bool {
    let mounts = mountinfo::parse(&root.maybe(&format!("proc/{pid}/mountinfo")).unwrap_or_default());
    mountinfo::holder(&mounts, path).is_none_or(|mount| is_local(mount) || device_answers(root, &mount.number))
}

/// Like [`answers`], for the file system with a device number. Returns false if it is mounted only in other namespaces, because
/// it cannot be queried then.
fn device_answers(root: &Root, number: &str) -> bool {
    let mounts = mountinfo::read(root).unwrap_or_default();
    mounts.iter().find(|mount| mount.number == number).is_some_and(|mount| answers(root, &mount.point))
}

impl RemoteMounts {
    fn space(&mut self, root: &Root, mount: &MountInfo) -> Space {
        let name = name(root, mount);
        if let Some(silent) = self.silent.get_mut(&name) {
            let is_stuck = silent.stuck.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)));
            if is_stuck || silent.since.elapsed() < RETRY {
                return Space::Silent;
            }
            self.silent.remove(&name);
        }
        self.answered.remove(&name);
        if holds_requests(root, &mount.number) {
            self.silent.insert(name, SilentMount { since: Instant::now(), stuck: None });
            return Space::Silent;
        }
        let Some(mut helper) = self.helper.take().or_else(Helper::start) else { return Space::Unknown };
        match helper.ask(&name, &mount.point, TIMEOUT) {
            Some(answer) => {
                self.helper = Some(helper);
                match answer {
                    Answer::Space(space) => {
                        self.answered.insert(name, Instant::now());
                        Space::Known(space)
                    }
                    Answer::Nothing => Space::Unknown,
                    Answer::Asked => Space::Silent,
                }
            }
            None => {
                let stuck = helper.give_up();
                self.silent.insert(name, SilentMount { since: Instant::now(), stuck });
                Space::Silent
            }
        }
    }
}

/// Identifies a mounted file system across all programs of a user, until the next boot.
fn name(root: &Root, mount: &MountInfo) -> String {
    // SAFETY: geteuid takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let namespace = root.link("proc/self/ns/mnt").unwrap_or_default();
    format!("whyslow/{user}/{namespace}/{}", mount.number)
}

/// Whether a FUSE program has pending requests and makes no progress with them (Documentation/filesystems/fuse.rst: waiting).
/// Returns false if the kernel does not report the count.
fn holds_requests(root: &Root, number: &str) -> bool {
    const STEP: Duration = Duration::from_millis(10);
    // Not read through the cache: the file cannot be read at an offset (nonseekable_open).
    let waiting = || {
        let text = std::fs::read_to_string(root.at(format!("{}/waiting", connection(number)?))).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let Some(mut least) = waiting().filter(|waiting| *waiting > 0) else { return false };
    let give_up = Instant::now() + TIMEOUT;
    while Instant::now() < give_up {
        sleep(STEP);
        match waiting() {
            Some(now) if now >= least => least = now,
            // The count dropped: the program answers.
            _ => return false,
        }
    }
    true
}

/// Returns the directory of a FUSE connection, whose name is the device number in the kernel's encoding (include/linux/kdev_t.h).
fn connection(number: &str) -> Option<String> {
    let (major, minor) = number.split_once(':')?;
    let (major, minor) = (major.parse::<u64>().ok()?, minor.parse::<u64>().ok()?);
    Some(format!("sys/fs/fuse/connections/{}", major << 20 | minor))
}

/// Whether the kernel answers from memory. A FUSE file system can also have a block device (fuseblk).
fn is_local(mount: &MountInfo) -> bool {
    !mount.kind.starts_with("fuse") && (!mount.number.starts_with("0:") || LOCAL.contains(&mount.kind.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::mountinfo::parse;
    use crate::testing::CapturedTree;

    fn mount(number: &str, kind: &str) -> MountInfo {
        parse(&format!("1 0 {number} / /m rw - {kind} x rw")).remove(0)
    }

    #[test]
    fn servers_and_fuse_programs_are_remote() {
        let is_remote = |number: &str, kind: &str| !is_local(&mount(number, kind));
        assert!(is_remote("0:40", "nfs4") && is_remote("0:41", "fuse.sshfs") && is_remote("8:1", "fuseblk"));
        assert!(!is_remote("8:1", "ext4") && !is_remote("0:42", "tmpfs"));
    }

    #[test]
    fn a_fuse_program_with_requests_that_stay_is_not_asked() {
        let tree = CapturedTree::with_files(&[("sys/fs/fuse/connections/44/waiting", "2\n")]);
        let root = tree.root();
        assert!(holds_requests(&root, "0:44"));
        assert_eq!(RemoteMounts::default().space(&root, &mount("0:44", "fuse.x")), Space::Silent);
        tree.write("sys/fs/fuse/connections/44/waiting", "0\n");
        assert!(!holds_requests(&root, "0:44"));
        assert!(!holds_requests(&root, "0:45"), "nobody says");
        assert_eq!(connection("8:1").as_deref(), Some("sys/fs/fuse/connections/8388609"));
    }

    #[test]
    fn without_a_helper_nobody_is_asked() {
        let tree = CapturedTree::with_files(&[]);
        assert_eq!(RemoteMounts::default().space(&tree.root(), &mount("0:44", "nfs4")), Space::Unknown);
    }
}
