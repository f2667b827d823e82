//! Holders of locks that threads wait for and that have not been released yet. For a released lock, the tracer knows which thread
//! released it.

use super::files::device_numbers;
use super::wanted::memory;
use crate::root::{Root, status_field};
use std::cell::OnceCell;
use std::collections::HashMap;

/// Constants of bpf/wanted.h.
const MUTEX: u32 = 1;
const WRITER: u32 = 2;
const LOCKED_SEMAPHORE: u32 = 3;
const LOCKED_FILE: u32 = 4;

/// A user-space lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lock {
    /// A mutex, identified by the address of its futex word.
    Mutex(u64),
    /// A reader-writer lock that a writer holds, identified by the address of one of its futex words.
    Rwlock(u64),
    /// A System V semaphore.
    Semaphore { set: i32, number: u16 },
    /// A lock on the file of the thread's system call.
    File,
}

/// The holder of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// A thread of the waiting process.
    Thread(u32),
    Process(u32),
}

impl Holder {
    /// Returns process and thread of the holder when a thread of process `waiter` waits; the thread is 0 if the holder is another
    /// process.
    pub(super) fn process_and_thread(self, waiter: u32) -> (u32, u32) {
        match self {
            Self::Thread(tid) => (waiter, tid),
            Self::Process(pid) => (pid, 0),
        }
    }

    /// Returns the TID of the thread, or of the process's main thread.
    pub(super) fn tid(self) -> u32 {
        match self {
            Self::Thread(number) | Self::Process(number) => number,
        }
    }
}

impl Lock {
    /// Builds a lock from the record of bpf/wanted.h.
    pub(super) fn noted(kind: u32, wanted: u64) -> Option<Self> {
        match kind {
            MUTEX => Some(Self::Mutex(wanted)),
            WRITER => Some(Self::Rwlock(wanted)),
            LOCKED_SEMAPHORE => Some(Self::Semaphore { set: (wanted >> 16) as i32, number: wanted as u16 }),
            LOCKED_FILE => Some(Self::File),
            _ => None,
        }
    }

    /// Returns the holder. The waiting thread belongs to process `pid` and is locking the file `descriptor`.
    pub(super) fn holder(self, pid: u32, descriptor: i32, files: &FileLocks<'_>) -> Option<Holder> {
        match self {
            Self::Mutex(address) => mutex_owner(pid, address, files.root).map(Holder::Thread),
            Self::Rwlock(address) => rwlock_writer(pid, address, files.root).map(Holder::Thread),
            Self::Semaphore { set, number } => semaphore_holder(pid, set, number, files.root).map(Holder::Process),
            Self::File => files.holder(pid, descriptor).map(Holder::Process),
        }
    }
}

/// Returns the thread that holds a mutex. glibc stores its TID behind the futex word (struct __pthread_mutex_s, sysdeps/nptl).
/// The data that other libraries have there is hardly ever the TID of one of the process's threads.
fn mutex_owner(pid: u32, address: u64, root: &Root) -> Option<u32> {
    own_thread(pid, number_at(pid, address, 8, root)?, root)
}

/// Returns the thread that holds a glibc pthread_rwlock_t for writing: its TID is 16 bytes behind the one futex word and 12
/// behind the other (struct __pthread_rwlock_arch_t).
pub(super) fn rwlock_writer(pid: u32, address: u64, root: &Root) -> Option<u32> {
    [16, 12].into_iter().find_map(|offset| own_thread(pid, number_at(pid, address, offset, root)?, root))
}

fn number_at(pid: u32, address: u64, offset: u64, root: &Root) -> Option<u32> {
    memory(pid, address.checked_add(offset)?, root).map(u32::from_ne_bytes).filter(|number| *number != 0)
}

/// Returns a thread of a process by the TID in its own namespace, which differs in a container (`NSpid` of proc_pid_status(5)).
fn own_thread(pid: u32, number: u32, root: &Root) -> Option<u32> {
    let numbers = |tid: &str| -> Option<Vec<u32>> {
        let status = root.maybe(&format!("proc/{pid}/task/{tid}/status"))?;
        let numbers = status_field(&status, "NSpid")?;
        Some(numbers.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect())
    };
    let is_contained = numbers(&pid.to_string()).is_some_and(|numbers| numbers.len() > 1);
    if !is_contained {
        return root.at(format!("proc/{pid}/task/{number}")).exists().then_some(number);
    }
    let tids = root.list(&format!("proc/{pid}/task"));
    let tid = tids.iter().find(|tid| numbers(tid).is_some_and(|numbers| numbers.last() == Some(&number)))?;
    tid.parse().ok()
}

/// Returns the process that took a semaphore whose value is now zero: the last one that changed it (semctl(2)). Works only for
/// semaphores of our own namespace.
fn semaphore_holder(pid: u32, set: i32, number: u16, root: &Root) -> Option<u32> {
    const GETPID: i32 = 11;
    const GETVAL: i32 = 12;
    let namespace = |pid: &str| root.link(&format!("proc/{pid}/ns/ipc"));
    if namespace(&pid.to_string()) != namespace("self") {
        return None;
    }
    // SAFETY: neither command takes a fourth argument, and a set that does not exist is an error.
    let ask = |command| unsafe { libc::semctl(set, number.into(), command) };
    let last = (ask(GETVAL) == 0).then(|| ask(GETPID)).and_then(|last| u32::try_from(last).ok())?;
    (last != 0 && last != pid && root.at(format!("proc/{last}")).exists()).then_some(last)
}

/// The file locks (proc_locks(5)), read on first use.
pub(super) struct FileLocks<'a> {
    root: &'a Root,
    text: OnceCell<String>,
    /// Processes with a descriptor that holds a lock on a file, by file (proc_pid_fdinfo(5)).
    by_descriptor: OnceCell<HashMap<String, Vec<u32>>>,
}

/// A line of /proc/locks: `1: -> FLOCK ADVISORY WRITE 4711 fd:00:1234 0 EOF`.
struct FileLock<'a> {
    number: &'a str,
    waits: bool,
    /// -1 if it belongs to a descriptor rather than a process.
    pid: i64,
    /// Device and inode, the device in hexadecimal.
    file: &'a str,
}

impl<'a> FileLock<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (number, rest) = line.split_once(':')?;
        let mut words = rest.split_ascii_whitespace().peekable();
        let waits = words.next_if_eq(&"->").is_some();
        let mut words = words.skip(3);
        let pid = words.next()?.parse().ok()?;
        Some(Self { number: number.trim(), waits, pid, file: words.next()? })
    }
}

impl<'a> FileLocks<'a> {
    pub(super) fn new(root: &'a Root) -> Self {
        Self { root, text: OnceCell::new(), by_descriptor: OnceCell::new() }
    }

    /// Returns the process that holds the file lock that process `pid` waits for. The entry of a waiting process has the number
    /// of the lock that blocks it.
    fn holder(&self, pid: u32, descriptor: i32) -> Option<u32> {
        let text = self.text.get_or_init(|| self.root.maybe("proc/locks").unwrap_or_default());
        let locks: Vec<FileLock<'_>> = text.lines().filter_map(FileLock::parse).collect();
        let file = self.file(pid, descriptor);
        let is_ours = |lock: &&FileLock<'_>| lock.waits && file.as_deref().is_none_or(|file| lock.file == file);
        let mut waits = locks.iter().filter(is_ours);
        let wait = waits.clone().find(|lock| lock.pid == i64::from(pid));
        // A lock that belongs to a descriptor has no process.
        let wait = wait.or_else(|| waits.find(|lock| lock.pid < 0 && file.is_some()))?;
        let held = locks.iter().find(|lock| !lock.waits && lock.number == wait.number)?;
        let is_alive = |pid: &u32| *pid != 0 && self.root.at(format!("proc/{pid}")).exists();
        let noted = u32::try_from(held.pid).ok().filter(is_alive);
        // The process that took the lock may have passed the descriptor on and ended.
        noted.or_else(|| {
            let holders = self.by_descriptor.get_or_init(|| by_descriptor(self.root)).get(held.file)?;
            holders.iter().copied().find(|holder| *holder != pid)
        })
    }

    /// Returns the file behind a descriptor in the format of /proc/locks.
    fn file(&self, pid: u32, descriptor: i32) -> Option<String> {
        let info = self.root.maybe(&format!("proc/{pid}/fdinfo/{descriptor}"))?;
        let inode = info.lines().find_map(|line| line.strip_prefix("ino:"))?.trim();
        let numbers = device_numbers(pid, &info, self.root)?;
        let (major, minor) = numbers.split_once(':')?;
        let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        Some(format!("{major:02x}:{minor:02x}:{inode}"))
    }
}

fn by_descriptor(root: &Root) -> HashMap<String, Vec<u32>> {
    let mut found: HashMap<String, Vec<u32>> = HashMap::new();
    for pid in root.list("proc").iter().filter_map(|name| name.parse::<u32>().ok()) {
        for descriptor in root.list(&format!("proc/{pid}/fdinfo")) {
            let info = root.maybe(&format!("proc/{pid}/fdinfo/{descriptor}")).unwrap_or_default();
            for line in info.lines().filter_map(|line| line.strip_prefix("lock:")) {
                if let Some(lock) = FileLock::parse(line).filter(|lock| !lock.waits) {
                    found.entry(lock.file.to_owned()).or_default().push(pid);
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::never_panics;
    use std::os::fd::AsRawFd;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = whyslow_testing::folder();
        for (path, text) in files {
            let path = folder.path().join("proc").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn the_holder_of_a_file_lock_has_the_number_of_the_one_that_waits() {
        let locks = "1: POSIX  ADVISORY  READ  11 fd:00:2 0 EOF\n\
            2: FLOCK  ADVISORY  WRITE 12 fd:00:3 0 EOF\n\
            2: -> FLOCK  ADVISORY  WRITE 13 fd:00:3 0 EOF\n\
            3: OFDLCK ADVISORY  WRITE -1 fd:00:4 0 EOF\n\
            3: -> OFDLCK ADVISORY  WRITE -1 fd:00:4 0 EOF\n\
            4: FLOCK  ADVISORY  WRITE 98 fd:00:5 0 EOF\n\
            4: -> FLOCK  ADVISORY  WRITE 15 fd:00:5 0 EOF\n";
        let mounts = "20 1 253:0 / / rw - ext4 /dev/vda1 rw\n";
        let info = |inode: u32, lock: &str| format!("pos:\t0\nmnt_id:\t20\nino:\t{inode}\n{lock}");
        let folder = tree(&[
            ("locks", locks),
            ("12/comm", "holder\n"),
            // A process that waits for the lock of a descriptor, and one that has that descriptor.
            ("14/fdinfo/3", &info(4, "")),
            ("14/mountinfo", mounts),
            ("16/fdinfo/5", &info(4, "lock:\t1: OFDLCK ADVISORY  WRITE -1 fd:00:4 0 EOF\n")),
            // The lock of a process that has ended and whose descriptor another process has.
            ("17/fdinfo/5", &info(5, "lock:\t1: FLOCK ADVISORY  WRITE 98 fd:00:5 0 EOF\n")),
        ]);
        let root = Root::captured(folder.path());
        let files = FileLocks::new(&root);
        assert_eq!([(13, 3), (12, 3), (99, 3)].map(|(pid, file)| files.holder(pid, file)), [Some(12), None, None]);
        assert_eq!((files.holder(14, 3), files.holder(15, 3)), (Some(16), Some(17)));
    }

    #[test]
    fn a_file_is_named_as_the_kernel_names_it_in_its_locks() {
        let folder = whyslow_testing::folder();
        let file = std::fs::File::create(folder.path().join("file")).unwrap();
        file.lock().unwrap();
        let root = Root::live();
        let name = FileLocks::new(&root).file(std::process::id(), file.as_raw_fd()).unwrap();
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        assert!(locks.lines().filter_map(FileLock::parse).any(|lock| lock.file == name), "{name}: {locks}");
    }

    #[test]
    fn threads_of_a_container_have_numbers_of_their_own() {
        let folder = tree(&[
            ("70/task/70/status", "Name:\tx\nNSpid:\t70\t1\n"),
            ("70/task/75/status", "Name:\tx\nNSpid:\t75\t6\n"),
            ("80/task/80/status", "Name:\tx\nNSpid:\t80\n"),
            ("80/task/81/status", "Name:\tx\nNSpid:\t81\n"),
        ]);
        let root = Root::captured(folder.path());
        assert_eq!(
            [(70, 6), (70, 75), (80, 81), (80, 6)].map(|(pid, n)| own_thread(pid, n, &root)),
            [Some(75), None, Some(81), None]
        );
    }

    #[test]
    fn no_line_makes_it_panic() {
        never_panics("1: -> FLOCK ADVISORY WRITE 4711 fd:00:1234 0 EOF", |text| {
            FileLock::parse(text);
        });
    }
}
