//! The reason why a thread sleeps, from the system call it is in: /proc/PID/task/TID/syscall (proc_pid_syscall(5)).
//!
//! Threads wait in futex(2) for locks, but also for work, the next frame or the end of another thread, which the kernel cannot
//! distinguish. The value expected in the futex word can: each runtime library has a constant for a lock that is held and has
//! waiters. A thread that waits for work expects a count or 0.
//!
//! A thread that waits for asynchronous I/O sleeps interruptibly, unlike one that waits in read(2), though both wait for the
//! disk.

use super::pid_files::{signed, words};
use libc::{FUTEX_CLOCK_REALTIME, FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_PRIVATE_FLAG, FUTEX_WAIT, FUTEX_WAIT_BITSET};

/// Locked with waiters, in glibc (nptl/lowlevellock.c), Rust's std (sys/sync/mutex/futex.rs) and Go (lock_futex.go).
const CONTENDED: u64 = 2;
/// The same in musl (src/thread/pthread_mutex_timedlock.c): EBUSY and the waiters bit.
const CONTENDED_MUSL: u64 = 0x8000_0010;

/// Held by a writer, with waiting readers, in Rust's std (sys/sync/rwlock/futex.rs).
const CONTENDED_BY_READERS: u64 = 0x7fff_ffff;

/// System calls that wait for the completion of asynchronous I/O, and their names in the diagnosis.
const ASYNC_IO: [(i64, &str); 2] =
    [(libc::SYS_io_getevents, "io_getevents"), (libc::SYS_io_uring_enter, "io_uring_enter")];

/// The reason why a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SleepReason {
    /// The thread waits for a lock that another thread holds.
    Lock,
    /// The thread waits in this system call for asynchronous I/O to complete.
    AsyncIo(&'static str),
    Other,
}

/// Parses the line: the number of the system call and its arguments in hexadecimal, or `running`.
pub(super) fn sleep_reason(line: &[u8]) -> Option<SleepReason> {
    let mut fields = words(line);
    let call = fields.next()?;
    let Some(call) = signed(call).filter(|_| call != b"running") else { return Some(SleepReason::Other) };
    if let Some((_, name)) = ASYNC_IO.iter().find(|(number, _)| *number == call) {
        return Some(SleepReason::AsyncIo(name));
    }
    if call != libc::SYS_futex {
        return Some(SleepReason::Other);
    }
    let mut arguments = fields.map(hexadecimal);
    let (_word, operation, expected) = (arguments.next()??, arguments.next()??, arguments.next()??);
    Some(if is_lock(operation, expected) { SleepReason::Lock } else { SleepReason::Other })
}

/// Returns the address of the lock that a thread waits for in futex(2), from the same line.
pub(crate) fn awaited_lock(line: &[u8]) -> Option<u64> {
    (sleep_reason(line) == Some(SleepReason::Lock)).then(|| words(line).nth(1).and_then(hexadecimal)).flatten()
}

/// Whether these arguments of futex(2) mean a wait for a lock.
fn is_lock(operation: u64, expected: u64) -> bool {
    // Both have 32 bits; the upper halves of the registers are undefined.
    let (operation, expected) = (operation as i32, u64::from(expected as u32));
    match operation & !(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME) {
        FUTEX_WAIT | FUTEX_WAIT_BITSET => [CONTENDED, CONTENDED_MUSL, CONTENDED_BY_READERS].contains(&expected),
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => true,
        _ => false,
    }
}

fn hexadecimal(word: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(word).ok()?.strip_prefix("0x")?;
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{own_tid, wait_until_state};

    fn futex(operation: &str, expected: &str) -> Option<SleepReason> {
        let call = libc::SYS_futex;
        sleep_reason(format!("{call} 0x7f10 {operation} {expected} 0x0 0x0 0xffffffff 0x7ffe 0x7f11\n").as_bytes())
    }

    #[test]
    fn a_lock_is_distinguished_from_waiting_for_work() {
        // A mutex of Rust, glibc and musl, and one with priority inheritance.
        assert_eq!(futex("0x89", "0x2"), Some(SleepReason::Lock));
        assert_eq!(futex("0x80", "0x2"), Some(SleepReason::Lock));
        assert_eq!(futex("0x80", "0x80000010"), Some(SleepReason::Lock));
        assert_eq!(futex("0x86", "0x0"), Some(SleepReason::Lock));
        // A reader of a RwLock of Rust.
        assert_eq!(futex("0x89", "0x7fffffff"), Some(SleepReason::Lock));
        // A condition variable, a semaphore and a parked thread.
        assert_eq!(futex("0x89", "0x5a"), Some(SleepReason::Other));
        assert_eq!(futex("0x189", "0x0"), Some(SleepReason::Other));
        assert_eq!(futex("0x89", "0xffffffff"), Some(SleepReason::Other));
    }

    /// Returns the result for a thread that runs `wait`, once it sleeps.
    fn asleep_in(wait: impl FnOnce() + Send + 'static) -> Option<SleepReason> {
        let (say, heard) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            say.send(own_tid()).unwrap();
            wait();
        });
        let directory = format!("/proc/self/task/{}", heard.recv().unwrap());
        wait_until_state(&directory, 'S');
        sleep_reason(&std::fs::read(format!("{directory}/syscall")).unwrap())
    }

    #[test]
    fn a_mutex_is_distinguished_from_a_queue_on_the_live_machine() {
        let lock = std::sync::Arc::new(std::sync::Mutex::new(()));
        let held = lock.lock().unwrap();
        let theirs = lock.clone();
        assert_eq!(asleep_in(move || drop(theirs.lock())), Some(SleepReason::Lock));
        drop(held);
        let (work, queue) = std::sync::mpsc::channel::<()>();
        assert_eq!(
            asleep_in(move || {
                let _ = queue.recv();
            }),
            Some(SleepReason::Other)
        );
        drop(work);
    }

    #[test]
    fn other_calls_and_running_threads_have_other_reasons() {
        assert_eq!(sleep_reason(b"230 0x0 0x0 0x7ffe 0x7ffe 0x0 0x0 0x7ffe 0x7f11\n"), Some(SleepReason::Other));
        assert_eq!(sleep_reason(b"-1 0x7ffe 0x7f11\n"), Some(SleepReason::Other));
        assert_eq!(sleep_reason(b"running\n"), Some(SleepReason::Other));
        assert_eq!(sleep_reason(b""), None);
        assert_eq!(futex("0x89", "2"), None);
    }

    #[test]
    fn waiting_for_asynchronous_io_is_recognized_by_the_call() {
        let of = |call: i64| sleep_reason(format!("{call} 0x7f10 0x1 0x1 0x7ffe 0x0 0x0 0x7ffe 0x7f11\n").as_bytes());
        assert_eq!(of(libc::SYS_io_getevents), Some(SleepReason::AsyncIo("io_getevents")));
        assert_eq!(of(libc::SYS_io_uring_enter), Some(SleepReason::AsyncIo("io_uring_enter")));
        assert_eq!(of(libc::SYS_epoll_wait), Some(SleepReason::Other));
    }
}
