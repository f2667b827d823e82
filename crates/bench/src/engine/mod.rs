//! How requests reach the kernel. One file per engine.

mod at_once;
mod looks;
mod mmap;
mod polled;
mod psync;
mod uring;

pub(crate) use mmap::Mmap;
pub(crate) use polled::Polled;
pub(crate) use psync::Psync;
pub(crate) use uring::Uring;

use crate::load::Request;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Carries requests to the kernel and brings back how they went. Each has a slot, which is one buffer.
pub(crate) trait Engine {
    /// Takes a request. The slot is the kernel's until its completion is brought back.
    ///
    /// # Errors
    /// Where the engine itself fails; how a request fares is told by its completion.
    fn submit(&mut self, slot: usize, request: Request) -> io::Result<()>;

    /// Waits for one completion: until there is one, until `due`, or until the bell rings. None where there was none.
    ///
    /// # Errors
    /// Where the engine itself fails.
    fn next(&mut self, due: Option<Instant>) -> io::Result<Option<Completion>>;

    /// The buffer of a slot that is not in flight.
    fn buffer(&mut self, slot: usize) -> &mut [u8];

    /// How long it looked for completions where it could as well have slept.
    fn looked(&self) -> Duration {
        Duration::ZERO
    }
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) slot: usize,
    /// Bytes moved, or an error number less than nothing.
    pub(crate) result: i64,
}

impl Completion {
    fn of(slot: usize, result: io::Result<usize>) -> Self {
        let result = match result {
            Ok(bytes) => i64::try_from(bytes).unwrap_or(i64::MAX),
            Err(e) => -i64::from(e.raw_os_error().unwrap_or(libc::EIO)),
        };
        Self { slot, result }
    }
}

/// Tells a job that it is to end, even where it waits.
#[derive(Debug)]
pub(crate) struct Bell {
    rung: AtomicBool,
    event: EventFd,
}

impl Bell {
    /// One that has not been rung.
    ///
    /// # Errors
    /// Where no more files can be opened.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC)?;
        Ok(Arc::new(Self { rung: AtomicBool::new(false), event }))
    }

    /// Rings it; it is heard from now on.
    pub(crate) fn ring(&self) {
        self.rung.store(true, Ordering::Relaxed);
        // A count of one always fits.
        let _ = self.event.write(1);
    }

    /// Whether it was rung.
    pub(crate) fn is_rung(&self) -> bool {
        self.rung.load(Ordering::Relaxed)
    }

    /// Waits until `due` or until it is rung. For engines whose requests are done when they are submitted.
    fn wait(&self, due: Instant) {
        while !self.is_rung() {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            // poll(2) counts in milliseconds, and a request must not be late: the rest is slept.
            match u16::try_from(left.as_millis()).unwrap_or(u16::MAX) {
                0 => std::thread::sleep(left),
                ms => drop(poll(&mut [PollFd::new(self.event.as_fd(), PollFlags::POLLIN)], PollTimeout::from(ms))),
            }
        }
    }
}

/// How long to wait for what is in flight when a job ends; what has not come back then is reported as hung.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
