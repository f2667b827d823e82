//! I/O engines: how requests reach the kernel.

mod io_buffers;
mod mmap;
mod psync;
mod uring;

pub(crate) use mmap::Mmap;
pub(crate) use psync::Psync;
pub(crate) use uring::{PolledUring, Uring};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoOp {
    Read,
    Write,
    Sync,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IoRequest {
    pub(crate) action: IoOp,
    /// Offset in bytes; 0 for a sync.
    pub(crate) offset: u64,
    /// Length in bytes; 0 for a sync.
    pub(crate) bytes: u32,
}

impl fmt::Display for IoRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { action, offset, bytes } = self;
        match action {
            IoOp::Read => write!(f, "read of {bytes} bytes at {offset}"),
            IoOp::Write => write!(f, "write of {bytes} bytes at {offset}"),
            IoOp::Sync => f.write_str("sync"),
        }
    }
}

/// Submits requests and reaps their completions. A slot is one buffer and at most one request in flight.
///
/// Methods return an error only if the engine itself fails; a failed request is reported by its completion.
pub(crate) trait IoEngine {
    /// Submits a request. The slot belongs to the kernel until [`IoEngine::next`] returns its completion.
    fn submit(&mut self, slot: usize, request: IoRequest) -> io::Result<()>;

    /// Waits for one completion, at most until `due` or the stop event.
    fn next(&mut self, due: Option<Instant>) -> io::Result<Option<Completion>>;

    /// Returns the buffer of a slot that is not in flight.
    fn buffer(&mut self, slot: usize) -> &mut [u8];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) slot: usize,
    /// Bytes transferred, or a negative errno.
    pub(crate) result: i64,
}

impl Completion {
    fn new(slot: usize, result: io::Result<usize>) -> Self {
        let result = match result {
            Ok(bytes) => i64::try_from(bytes).unwrap_or(i64::MAX),
            Err(e) => -i64::from(e.raw_os_error().unwrap_or(libc::EIO)),
        };
        Self { slot, result }
    }
}

/// Signals a job to stop, even while it waits.
#[derive(Debug)]
pub(crate) struct StopEvent {
    signalled: AtomicBool,
    event: EventFd,
}

impl StopEvent {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC)?;
        Ok(Arc::new(Self { signalled: AtomicBool::new(false), event }))
    }

    pub(crate) fn signal(&self) {
        self.signalled.store(true, Ordering::Relaxed);
        // Adding 1 to an eventfd that is written once cannot fail.
        let _ = self.event.write(1);
    }

    pub(crate) fn is_signalled(&self) -> bool {
        self.signalled.load(Ordering::Relaxed)
    }

    /// Waits until `due` or the signal.
    fn wait(&self, due: Instant) {
        while !self.is_signalled() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // poll(2) counts in milliseconds; sleep for the rest, so that a request is not late.
            match u16::try_from(left.as_millis()).unwrap_or(u16::MAX) {
                0 => std::thread::sleep(left),
                ms => drop(poll(&mut [PollFd::new(self.event.as_fd(), PollFlags::POLLIN)], PollTimeout::from(ms))),
            }
        }
    }
}

/// Maximum time that a job waits for requests in flight when it ends; those still missing are reported as hung.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
