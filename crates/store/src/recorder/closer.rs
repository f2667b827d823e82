//! The low-priority thread that turns finished tails into Parquet.

use super::{SharedState, lock};
use crate::error::LogFn;
use crate::folder::Folder;
use crate::segment::close;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// A tail that could not be closed is tried again after this time.
const RETRY: Duration = Duration::from_secs(60);

pub(super) struct TailCloser {
    pub(super) folder: Folder,
    pub(super) log: LogFn,
    pub(super) shared: Arc<SharedState>,
}

struct FinishedTail {
    path: PathBuf,
    /// The failure to close it was logged.
    reported: bool,
}

impl TailCloser {
    /// Closes every tail received, until the channel is closed. Tails that could not be closed by then are left to the next
    /// recorder.
    pub(super) fn run(self, tails: &Receiver<PathBuf>) -> Self {
        lower_priority();
        let mut left: Vec<FinishedTail> = Vec::new();
        loop {
            let next = if left.is_empty() {
                tails.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                tails.recv_timeout(RETRY)
            };
            match next {
                Ok(path) => left.push(FinishedTail { path, reported: false }),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self,
            }
            left.retain_mut(|tail| !self.try_close(tail));
        }
    }

    /// Closes a tail, or leaves it to the next recorder.
    pub(super) fn close(&self, path: PathBuf) {
        self.try_close(&mut FinishedTail { path, reported: false });
    }

    fn try_close(&self, tail: &mut FinishedTail) -> bool {
        let closed = close(&self.folder, &tail.path);
        if let (Err(error), false) = (&closed, tail.reported) {
            (self.log)(&format!("cannot close {}: {error}; it stays readable", tail.path.display()));
            tail.reported = true;
        }
        if let Ok((kept, lost @ 1..)) = closed {
            let what =
                format!("{lost} samples recorded before were damaged on disk and are lost; {kept} of them are kept");
            (self.log)(&format!("{}: {what}", tail.path.display()));
            self.shared.lost.fetch_add(lost, Ordering::Relaxed);
            lock(&self.shared.events).push(what);
        }
        return_freed_memory();
        self.shared.closed.store(true, Ordering::Relaxed);
        closed.is_ok()
    }
}

/// Lowers this thread's CPU and I/O priority: nothing waits for it.
pub fn lower_priority() {
    const LEAST_NICE: libc::c_int = 19;
    const WHO_PROCESS: libc::c_int = 1;
    const BEST_EFFORT_LAST: libc::c_int = (2 << 13) | 7;
    // SAFETY: both calls take numbers only; 0 is the calling thread (setpriority(2), ioprio_set(2)). If they are refused, the
    // thread keeps its priority.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, LEAST_NICE);
        libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, BEST_EFFORT_LAST);
    }
}

/// Returns freed memory to the kernel (malloc_trim(3)). Closing a segment, and loading BPF programs before the first sample,
/// need some megabytes for a moment, which the C library would keep as long as the recorder runs.
pub(super) fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim takes a number and may be called at any time.
    unsafe {
        libc::malloc_trim(0);
    }
}
