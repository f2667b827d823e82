//! The object that a thread waits for, from its system call (proc_pid_syscall(5)). For threads that block while they are watched,
//! bpf/wanted.h finds the same.

use super::holders::{Lock, rwlock_writer};
use crate::root::Root;
use crate::task::awaited_lock;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Larger numbers are not descriptors, but half an address.
const MOST_FILES: u64 = 1 << 16;
/// Futex value that glibc's waiters for a writer expect in futex(2) (nptl/pthread_rwlock_common.c). Programs that use the futex
/// as a counter can expect it, too.
const WRITER: u64 = 3;

/// The object that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// The file descriptor; -1 if there is none or there are several.
    pub(super) file: i32,
    /// The events of a poll(2) on a single file.
    pub(super) polled: Option<u16>,
    pub(super) lock: Option<Lock>,
}

/// Parses `7 0x7ffd... 0x1 ...`: the number and the arguments of a system call, for a thread of this process.
pub(super) fn wanted(pid: u32, line: &str, root: &Root) -> Wanted {
    let line = line.trim_end();
    let mut words = line.split(' ');
    let call: i64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(-1);
    let mut argument = || words.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let [first, second, third] = [(); 3].map(|()| argument().unwrap_or(u64::MAX));
    let none = Wanted { file: -1, polled: None, lock: None };
    match call {
        libc::SYS_futex => {
            let writes = || third as u32 == WRITER as u32 && rwlock_writer(pid, first, root).is_some();
            let lock = awaited_lock(line.as_bytes()).map(Lock::Mutex);
            Wanted { lock: lock.or_else(|| writes().then_some(Lock::Rwlock(first))), ..none }
        }
        libc::SYS_semop | libc::SYS_semtimedop => {
            let operation = memory::<6>(pid, second, root).map(|bytes| [0, 2, 4].map(|at| [bytes[at], bytes[at + 1]]));
            let lock = operation.and_then(|[number, change, flags]| {
                let undone = u16::from_ne_bytes(flags) & libc::SEM_UNDO as u16 != 0;
                let takes = i16::from_ne_bytes(change) < 0 && undone;
                takes.then_some(Lock::Semaphore { set: first as i32, number: u16::from_ne_bytes(number) })
            });
            Wanted { lock, ..none }
        }
        call if polls(call) => match memory::<8>(pid, first, root).filter(|_| second == 1) {
            Some([a, b, c, d, low, high, ..]) => Wanted {
                file: i32::from_ne_bytes([a, b, c, d]),
                polled: Some(u16::from_ne_bytes([low, high])),
                lock: None,
            },
            None => none,
        },
        call if call < 0 || selects(call) => none,
        call => {
            let file = if first < MOST_FILES { first as i32 } else { -1 };
            let locks = matches!(call, libc::SYS_flock | libc::SYS_fcntl);
            Wanted { file, lock: locks.then_some(Lock::File), ..none }
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn polls(call: i64) -> bool {
    matches!(call, libc::SYS_poll | libc::SYS_ppoll)
}

#[cfg(not(target_arch = "x86_64"))]
fn polls(call: i64) -> bool {
    call == libc::SYS_ppoll
}

/// Whether the call is a form of select(2), whose first argument is a count.
#[cfg(target_arch = "x86_64")]
fn selects(call: i64) -> bool {
    matches!(call, libc::SYS_select | libc::SYS_pselect6)
}

#[cfg(not(target_arch = "x86_64"))]
fn selects(call: i64) -> bool {
    call == libc::SYS_pselect6
}

/// Reads `N` bytes of a process's memory.
pub(super) fn memory<const N: usize>(pid: u32, address: u64, root: &Root) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    File::open(root.at(format!("proc/{pid}/mem"))).ok()?.read_exact_at(&mut bytes, address).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::never_panics;

    fn parsed(line: &str) -> Wanted {
        wanted(std::process::id(), line, &Root::live())
    }

    #[test]
    fn the_only_polled_file_is_what_is_waited_for() {
        let one = [libc::pollfd { fd: 7, events: libc::POLLIN, revents: 0 }];
        let call = |number: i64, count: u32| {
            format!("{number} {:#x} {count:#x} 0xffffffff 0x0 0x0 0x0\n", one.as_ptr() as u64)
        };
        assert_eq!(
            parsed(&call(libc::SYS_ppoll, 1)),
            Wanted { file: 7, polled: Some(libc::POLLIN as u16), lock: None }
        );
        assert_eq!(parsed(&call(libc::SYS_ppoll, 2)).file, -1);
        assert_eq!(parsed(&format!("{} 0x7 0x0 0x0 0x0 0x0 0x0\n", libc::SYS_pselect6)).file, -1);
        assert_eq!(parsed(&format!("{} 0x7 0x0 0x0 0x0 0x0 0x0\n", libc::SYS_read)).file, 7);
        assert_eq!((parsed("running").file, parsed("-1 0x7ffe 0x7f11").file, parsed("").file), (-1, -1, -1));
    }

    #[test]
    fn a_semaphore_that_is_undone_is_a_lock() {
        // Semaphore 3: decrement by 1 with SEM_UNDO, the same without, and increment by 1.
        let [taken, counted, given] = [[3_i16, -1, 0x1000], [3, -1, 0], [3, 1, 0x1000]];
        let lock = |operation: &[i16; 3]| {
            parsed(&format!("{} 0x20 {:#x} 0x1 0x0 0x0 0x0\n", libc::SYS_semop, operation.as_ptr() as u64)).lock
        };
        assert_eq!(lock(&taken), Some(Lock::Semaphore { set: 32, number: 3 }));
        assert_eq!((lock(&counted), lock(&given)), (None, None));
    }

    #[test]
    fn no_line_makes_it_panic() {
        never_panics("202 0x7f10 0x89 0x3 0x0 0x0 0xffffffff 0x7ffe 0x7f11", |text| {
            parsed(text);
        });
    }
}
