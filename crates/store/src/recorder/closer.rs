//! The low-priority thread that turns finished tails into Parquet.

use super::{SharedState, lock};
use crate::error::LogFn;
use crate::folder::Folder;
use crate::segment::{ClosedTail, close};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Delay before retrying to close a tail.
const RETRY: Duration = Duration::from_secs(60);

pub(super) struct TailCloser {
    pub(super) folder: Folder,
    pub(super) log: LogFn,
    pub(super) shared: Arc<SharedState>,
}

struct FinishedTail {
    path: PathBuf,
    /// True once the failure to close it was logged.
    reported: bool,
}

impl TailCloser {
    /// Closes every tail received, until the channel is closed. Leaves tails that could not be closed by then to the
    /// next recorder.
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
                // After many restarts many tails are waiting; they are closed together.
                Ok(path) => left.extend(std::iter::once(path).chain(tails.try_iter()).map(FinishedTail::new)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self,
            }
            self.try_close(&mut left);
        }
    }

    /// Closes a tail, or leaves it to the next recorder.
    pub(super) fn close(&self, path: PathBuf) {
        self.try_close(&mut vec![FinishedTail::new(path)]);
    }

    /// Closes tails, and keeps those that cannot be closed in the list.
    fn try_close(&self, tails: &mut Vec<FinishedTail>) {
        let paths: Vec<PathBuf> = tails.iter().map(|tail| tail.path.clone()).collect();
        let mut closed = close(&self.folder, &paths).into_iter();
        tails.retain_mut(|tail| match closed.next() {
            Some(Err(error)) => {
                if !std::mem::replace(&mut tail.reported, true) {
                    (self.log)(&format!("cannot close {}: {error}; it stays readable", tail.path.display()));
                }
                true
            }
            Some(Ok(content)) => {
                self.report(&tail.path, content);
                false
            }
            None => true,
        });
        return_freed_memory();
        self.shared.closed.store(true, Ordering::Relaxed);
    }

    /// Logs what is missing.
    fn report(&self, tail: &Path, ClosedTail { samples, lost, is_cut }: ClosedTail) {
        let damaged = (lost > 0).then(|| {
            format!("{lost} samples recorded before were damaged on disk and are lost; {samples} of them are kept")
        });
        let cut = is_cut.then(|| {
            format!(
                "the previous recording ended in the middle of a sample, which is lost; the {samples} samples before it are kept"
            )
        });
        for what in damaged.into_iter().chain(cut) {
            let line = format!("{}: {what}", tail.display());
            lock(&self.shared.events).push(what);
            (self.log)(&line);
        }
        self.shared.lost.fetch_add(lost, Ordering::Relaxed);
    }
}

impl FinishedTail {
    fn new(path: PathBuf) -> Self {
        Self { path, reported: false }
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
