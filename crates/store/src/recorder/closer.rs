//! The thread that closes tails, when the machine has time for it.

use super::memory::give_back_memory;
use super::{Log, Shared, lock};
use crate::folder::Folder;
use crate::segment::close;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How long to wait before a tail that could not be closed is tried again.
const AGAIN: Duration = Duration::from_secs(60);

/// The closer and what it holds.
pub(super) struct Closer {
    pub(super) folder: Folder,
    pub(super) log: Log,
    pub(super) shared: Arc<Shared>,
}

/// A tail to be closed.
struct Tail {
    path: PathBuf,
    /// Whether the log knows that it could not be.
    said: bool,
}

impl Closer {
    /// Closes every tail it is given, until nobody gives it any more. One that cannot be closed is tried again, and left
    /// for the next recorder at the end.
    pub(super) fn run(self, tails: &Receiver<PathBuf>) -> Self {
        give_way();
        let mut left: Vec<Tail> = Vec::new();
        loop {
            let next = if left.is_empty() {
                tails.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                tails.recv_timeout(AGAIN)
            };
            match next {
                Ok(path) => left.push(Tail { path, said: false }),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self,
            }
            left.retain_mut(|tail| !self.closes(tail));
        }
    }

    /// Closes a tail; one that cannot be closed is left for the next recorder.
    pub(super) fn close(&self, path: PathBuf) {
        self.closes(&mut Tail { path, said: false });
    }

    fn closes(&self, tail: &mut Tail) -> bool {
        let closed = close(&self.folder, &tail.path);
        if let (Err(error), false) = (&closed, tail.said) {
            (self.log)(&format!("cannot close {}: {error}; it stays readable", tail.path.display()));
            tail.said = true;
        }
        if let Ok((kept, lost @ 1..)) = closed {
            let what =
                format!("{lost} samples recorded before were damaged on disk and are lost; {kept} of them are kept");
            (self.log)(&format!("{}: {what}", tail.path.display()));
            self.shared.lost.fetch_add(lost, Ordering::Relaxed);
            lock(&self.shared.befell).push(what);
        }
        give_back_memory();
        self.shared.closed.store(true, Ordering::Relaxed);
        closed.is_ok()
    }
}

/// Lowers this thread's priority for processors and block devices: nobody waits for what it does.
fn give_way() {
    const LEAST_NICE: libc::c_int = 19;
    const WHO_PROCESS: libc::c_int = 1;
    const BEST_EFFORT_LAST: libc::c_int = (2 << 13) | 7;
    // SAFETY: both calls take numbers only; 0 stands for the calling thread (setpriority(2), ioprio_set(2)). Where they
    // are refused the thread goes on as it is.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, LEAST_NICE);
        libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, BEST_EFFORT_LAST);
    }
}
