//! What a sleeping thread waits for in futex(2), from /proc/PID/task/TID/syscall (proc_pid_syscall(5)).
//!
//! Threads wait in futex(2) for locks, but also for work, the next frame or the end of another thread, which the kernel cannot
//! distinguish. The value expected in the futex word can: each runtime library has a constant for a lock that is held and has
//! waiters. A thread that waits for work expects a count or 0.

use super::pid_files::{signed, words};
use libc::{FUTEX_CLOCK_REALTIME, FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_PRIVATE_FLAG, FUTEX_WAIT, FUTEX_WAIT_BITSET};

/// Locked with waiters, in glibc (nptl/lowlevellock.c), Rust's std (sys/sync/mutex/futex.rs) and Go (lock_futex.go).
const CONTENDED: u64 = 2;
/// The same in musl (src/thread/pthread_mutex_timedlock.c): EBUSY and the waiters bit.
const CONTENDED_MUSL: u64 = 0x8000_0010;

/// Whether a thread waits for a lock that another holds. The line is the number of the system call and its arguments in
/// hexadecimal, or `running`.
pub(super) fn waits_for_lock(line: &[u8]) -> Option<bool> {
    let mut fields = words(line);
    let call = fields.next()?;
    if call == b"running" || signed(call)? != libc::SYS_futex {
        return Some(false);
    }
    let mut arguments = fields.map(hexadecimal);
    let (_word, operation, expected) = (arguments.next()??, arguments.next()??, arguments.next()??);
    Some(is_lock(operation, expected))
}

/// Whether these arguments of futex(2) are those of a lock.
fn is_lock(operation: u64, expected: u64) -> bool {
    // Both have 32 bits; the upper halves of the registers are undefined.
    let (operation, expected) = (operation as i32, u64::from(expected as u32));
    match operation & !(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME) {
        FUTEX_WAIT | FUTEX_WAIT_BITSET => [CONTENDED, CONTENDED_MUSL].contains(&expected),
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
    use crate::testing::{never_panics_on_bytes, wait_until_state};

    fn futex(operation: &str, expected: &str) -> Option<bool> {
        let call = libc::SYS_futex;
        waits_for_lock(format!("{call} 0x7f10 {operation} {expected} 0x0 0x0 0xffffffff 0x7ffe 0x7f11\n").as_bytes())
    }

    #[test]
    fn a_lock_is_distinguished_from_waiting_for_work() {
        // A mutex of Rust, glibc and musl, and one with priority inheritance.
        assert_eq!(futex("0x89", "0x2"), Some(true));
        assert_eq!(futex("0x80", "0x2"), Some(true));
        assert_eq!(futex("0x80", "0x80000010"), Some(true));
        assert_eq!(futex("0x86", "0x0"), Some(true));
        // A condition variable, a semaphore and a parked thread.
        assert_eq!(futex("0x89", "0x5a"), Some(false));
        assert_eq!(futex("0x189", "0x0"), Some(false));
        assert_eq!(futex("0x89", "0xffffffff"), Some(false));
    }

    /// The result for a thread that runs `wait`, once it sleeps.
    fn asleep_in(wait: impl FnOnce() + Send + 'static) -> Option<bool> {
        let (say, heard) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // SAFETY: gettid(2) takes nothing and always succeeds.
            say.send(unsafe { libc::gettid() }).unwrap();
            wait();
        });
        let directory = format!("/proc/self/task/{}", heard.recv().unwrap());
        wait_until_state(&directory, 'S');
        waits_for_lock(&std::fs::read(format!("{directory}/syscall")).unwrap())
    }

    #[test]
    fn a_mutex_is_distinguished_from_a_queue_on_the_live_machine() {
        let lock = std::sync::Arc::new(std::sync::Mutex::new(()));
        let held = lock.lock().unwrap();
        let theirs = lock.clone();
        assert_eq!(asleep_in(move || drop(theirs.lock())), Some(true));
        drop(held);
        let (work, queue) = std::sync::mpsc::channel::<()>();
        assert_eq!(
            asleep_in(move || {
                let _ = queue.recv();
            }),
            Some(false)
        );
        drop(work);
    }

    #[test]
    fn other_calls_and_running_threads_wait_for_no_lock() {
        assert_eq!(waits_for_lock(b"230 0x0 0x0 0x7ffe 0x7ffe 0x0 0x0 0x7ffe 0x7f11\n"), Some(false));
        assert_eq!(waits_for_lock(b"-1 0x7ffe 0x7f11\n"), Some(false));
        assert_eq!(waits_for_lock(b"running\n"), Some(false));
        assert_eq!(waits_for_lock(b""), None);
        assert_eq!(futex("0x89", "2"), None);
    }

    #[test]
    fn no_bytes_make_it_panic() {
        never_panics_on_bytes(b"202 0x7f10 0x89 0x2 0x0\n", |bytes| {
            let _ = waits_for_lock(bytes);
        });
    }
}
