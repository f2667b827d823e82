//! What a sleeping thread waits for in futex(2), by /proc/PID/task/TID/syscall (proc_pid_syscall(5)).
//!
//! Threads wait in futex(2) for locks, but also for work, for the next frame or for each other's end, and the kernel
//! cannot tell these apart. What the thread expects to find in the word it waits on can: a lock's word says that the lock
//! is held and wanted, by a constant of its own in each run-time library. A thread that waits for work expects a count or 0.

use super::pid_files::{signed, words};
use libc::{FUTEX_CLOCK_REALTIME, FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_PRIVATE_FLAG, FUTEX_WAIT, FUTEX_WAIT_BITSET};

/// 'Held and wanted' in glibc (nptl/lowlevellock.c), in Rust's std (sys/sync/mutex/futex.rs) and in Go (lock_futex.go).
const HELD_AND_WANTED: u64 = 2;
/// The same in musl (src/thread/pthread_mutex_timedlock.c): EBUSY with the bit for waiters.
const HELD_AND_WANTED_MUSL: u64 = 0x8000_0010;

/// Whether a thread sleeps for a lock that another holds; `None` where the text makes no sense.
///
/// The line is the number of the system call and its arguments in hexadecimal, or `running`.
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

/// Whether futex(2) is called so for the sake of a lock.
fn is_lock(operation: u64, expected: u64) -> bool {
    // The kernel takes both as 32 bits; what the registers hold above is chance.
    let (operation, expected) = (operation as i32, u64::from(expected as u32));
    match operation & !(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME) {
        FUTEX_WAIT | FUTEX_WAIT_BITSET => [HELD_AND_WANTED, HELD_AND_WANTED_MUSL].contains(&expected),
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
    use proptest::prelude::*;

    fn futex(operation: &str, expected: &str) -> Option<bool> {
        let call = libc::SYS_futex;
        waits_for_lock(format!("{call} 0x7f10 {operation} {expected} 0x0 0x0 0xffffffff 0x7ffe 0x7f11\n").as_bytes())
    }

    #[test]
    fn a_lock_is_told_from_work_to_come() {
        // As a mutex of Rust's, of glibc's and of musl's waits, and one with priority inheritance.
        assert_eq!(futex("0x89", "0x2"), Some(true));
        assert_eq!(futex("0x80", "0x2"), Some(true));
        assert_eq!(futex("0x80", "0x80000010"), Some(true));
        assert_eq!(futex("0x86", "0x0"), Some(true));
        // As a condition variable, a semaphore and a parked thread wait.
        assert_eq!(futex("0x89", "0x5a"), Some(false));
        assert_eq!(futex("0x189", "0x0"), Some(false));
        assert_eq!(futex("0x89", "0xffffffff"), Some(false));
    }

    /// What the kernel of this machine says of a thread that does `wait`, once it sleeps.
    fn asleep_in(wait: impl FnOnce() + Send + 'static) -> Option<bool> {
        let (say, heard) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // SAFETY: gettid(2) takes nothing and always succeeds.
            say.send(unsafe { libc::gettid() }).unwrap();
            wait();
        });
        let folder = format!("/proc/self/task/{}", heard.recv().unwrap());
        let stat = || std::fs::read_to_string(format!("{folder}/stat")).unwrap();
        (0..1000).find(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            stat().rsplit(')').next().is_some_and(|rest| rest.starts_with(" S"))
        });
        waits_for_lock(&std::fs::read(format!("{folder}/syscall")).unwrap())
    }

    #[test]
    fn this_machine_tells_a_mutex_from_a_queue() {
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
    fn other_calls_and_running_threads() {
        assert_eq!(waits_for_lock(b"230 0x0 0x0 0x7ffe 0x7ffe 0x0 0x0 0x7ffe 0x7f11\n"), Some(false));
        assert_eq!(waits_for_lock(b"-1 0x7ffe 0x7f11\n"), Some(false));
        assert_eq!(waits_for_lock(b"running\n"), Some(false));
        assert_eq!(waits_for_lock(b""), None);
        assert_eq!(futex("0x89", "2"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = waits_for_lock(&bytes);
        }
    }
}
