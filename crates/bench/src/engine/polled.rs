//! io_uring(7) without interrupts: the thread that waits asks the device again and again whether it is done
//! (io_uring_setup(2), IORING_SETUP_IOPOLL). For reads and writes past the page cache, on devices that can be asked.

use super::uring::Uring;
use super::{Bell, Completion, Engine};
use crate::load::Request;
use io_uring::IoUring;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// A ring whose completions are polled for.
pub(crate) struct Polled {
    ring: Uring,
    /// Whether it was told already that the bell rang.
    told: bool,
}

impl Polled {
    /// On this file, with `depth` slots for blocks of up to `block` bytes.
    ///
    /// # Errors
    /// Where the kernel has no io_uring, or this user may not use it.
    pub(crate) fn new(file: Arc<File>, bell: Arc<Bell>, depth: usize, block: usize) -> io::Result<Self> {
        let entries = u32::try_from(depth).unwrap_or(u32::MAX);
        let ring = IoUring::builder().setup_iopoll().setup_single_issuer().build(entries)?;
        // It cannot wait for anything but the device; whether the bell rang is looked at now and then.
        Ok(Self { ring: Uring::on(ring, file, bell, depth, block, false)?, told: false })
    }

    /// Whether the bell has rung since it was looked at.
    fn has_rung(&mut self) -> bool {
        !std::mem::replace(&mut self.told, self.ring.bell.is_rung()) && self.told
    }
}

impl Engine for Polled {
    fn submit(&mut self, slot: usize, request: Request) -> io::Result<()> {
        self.ring.submit(slot, request)
    }

    fn next(&mut self, due: Option<Instant>) -> io::Result<Option<Completion>> {
        loop {
            if let Some(done) = self.ring.take_ready()? {
                return Ok(Some(done));
            }
            if self.has_rung() || due.is_some_and(|due| Instant::now() >= due) {
                return Ok(None);
            }
            // Where something is due, one look; else the kernel looks until there is something, or another thread's turn.
            self.ring.enter(due.is_none(), None)?;
        }
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.ring.buffer(slot)
    }
}
