//! io_uring(7): many requests in flight, with registered buffers and a registered file.
//!
//! A request goes to the kernel as soon as it can be made: taking all completions and then submitting all anew would empty
//! the device's queue each time.

use super::looks::{self, Looks};
use super::{Bell, Completion, Engine};
use crate::load::{Action, Request};
use crate::memory::Slots;
use io_uring::types::{Fd, Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, opcode, squeue};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the bell's completion bears in place of a slot.
const BELL: u64 = u64::MAX;

/// A ring and what its requests refer to.
pub(crate) struct Uring {
    // The ring stands first: it is dropped, and with it what the kernel holds, before buffers and files are.
    ring: IoUring,
    buffers: Slots,
    file: Arc<File>,
    pub(super) bell: Arc<Bell>,
    /// What is read from the bell; the kernel writes to it, so it must not move.
    rung: Box<u64>,
    data_only: bool,
    /// Whether buffers and file are registered, which saves looking them up for each request.
    registered: bool,
    looks: Looks,
}

impl Uring {
    /// On this file, with `depth` slots for blocks of up to `block` bytes.
    ///
    /// # Errors
    /// Where the kernel has no io_uring, or this user may not use it.
    pub(crate) fn new(
        file: Arc<File>,
        bell: Arc<Bell>,
        depth: usize,
        block: usize,
        data_only: bool,
    ) -> io::Result<Self> {
        // One for the bell.
        let entries = u32::try_from(depth + 1).unwrap_or(u32::MAX);
        let mut engine = Self::on(ring(entries)?, file, bell, depth, block, data_only)?;
        engine.listen()?;
        Ok(engine)
    }

    /// On a ring that has room for as many.
    ///
    /// # Errors
    /// Where memory is short.
    pub(super) fn on(
        ring: IoUring,
        file: Arc<File>,
        bell: Arc<Bell>,
        depth: usize,
        block: usize,
        data_only: bool,
    ) -> io::Result<Self> {
        let buffers = Slots::new(depth, block)?;
        // SAFETY: the pages stay mapped, at the same place, until the ring is gone: see the order of the fields.
        let registered = unsafe { ring.submitter().register_buffers(&[buffers.whole()]) }.is_ok()
            && ring.submitter().register_files(&[file.as_raw_fd()]).is_ok();
        let (rung, looks) = (Box::new(0), Looks::new(depth));
        Ok(Self { ring, buffers, file, bell, rung, data_only, registered, looks })
    }

    /// Has the ring wake up when the bell rings.
    fn listen(&mut self) -> io::Result<()> {
        let event: RawFd = self.bell.event.as_raw_fd();
        let read = opcode::Read::new(Fd(event), (&raw mut *self.rung).cast(), size_of::<u64>() as u32);
        self.push(read.build().user_data(BELL))
    }

    fn push(&mut self, entry: squeue::Entry) -> io::Result<()> {
        // SAFETY: what the entry points to, buffers and the bell's count, lives and stays in place until the ring is gone.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::Error::other("the ring is full"))
    }

    fn entry(&self, slot: usize, request: Request) -> squeue::Entry {
        let (address, bytes, offset) = (self.buffers.address(slot), request.bytes, request.offset);
        let flags = if self.data_only { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
        let plain = Fd(self.file.as_raw_fd());
        match (request.action, self.registered) {
            (Action::Read, true) => opcode::ReadFixed::new(Fixed(0), address, bytes, 0).offset(offset).build(),
            (Action::Write, true) => opcode::WriteFixed::new(Fixed(0), address, bytes, 0).offset(offset).build(),
            (Action::Sync, true) => opcode::Fsync::new(Fixed(0)).flags(flags).build(),
            (Action::Read, false) => opcode::Read::new(plain, address, bytes).offset(offset).build(),
            (Action::Write, false) => opcode::Write::new(plain, address, bytes).offset(offset).build(),
            (Action::Sync, false) => opcode::Fsync::new(plain).flags(flags).build(),
        }
    }

    /// A completion that is there already; the bell's own is none.
    fn ready(&mut self) -> Option<Completion> {
        loop {
            let entry = self.ring.completion().next()?;
            if entry.user_data() != BELL {
                return Some(Completion { slot: entry.user_data() as usize, result: i64::from(entry.result()) });
            }
        }
    }

    /// The same, and the kernel hears of new requests before anything else is done, or the device would run dry.
    pub(super) fn take_ready(&mut self) -> io::Result<Option<Completion>> {
        let done = self.ready();
        if done.is_some() && !self.ring.submission().is_empty() {
            self.enter(false, None)?;
        }
        Ok(done)
    }

    /// Looks for a completion for as long as that is worth it.
    fn look(&mut self) -> io::Result<Option<Completion>> {
        if !self.looks.are_due() {
            return Ok(None);
        }
        // What is done at once (from the page cache) need not be looked for.
        self.enter(false, None)?;
        if let Some(done) = self.ready() {
            return Ok(Some(done));
        }
        let began = Instant::now();
        loop {
            self.enter(false, None)?;
            let (done, time) = (self.ready(), began.elapsed());
            if done.is_some() || time > looks::LONGEST {
                self.looks.looked(time, done.is_some());
                return Ok(done);
            }
        }
    }

    /// Tells the kernel of new requests, and has it post the completions there are; with `wait` until there is one, or until it
    /// is due.
    pub(super) fn enter(&mut self, wait: bool, due: Option<Instant>) -> io::Result<()> {
        let new = u32::try_from(self.ring.submission().len()).unwrap_or(u32::MAX);
        let kernel = self.ring.submitter();
        let told = match due.filter(|_| wait) {
            // SAFETY: nothing is passed that has to be valid.
            None => unsafe { kernel.enter::<libc::sigset_t>(new, u32::from(wait), EnterFlags::GETEVENTS.bits(), None) },
            Some(due) => {
                let time = Timespec::from(due.saturating_duration_since(Instant::now()));
                kernel.submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        match told {
            Err(e) if !is_passing(&e) => Err(e),
            _ => Ok(()),
        }
    }
}

/// Whether an error says no more than that the time is up, a signal came, or the kernel is short of memory for a moment:
/// what it was not told of stays in the ring for the next call.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

/// A ring for `entries` requests. Completions are worked off by the thread that waits for them, in one go, and not by
/// interrupting it: kernels since 6.1 can do that.
fn ring(entries: u32) -> io::Result<IoUring> {
    let modern = IoUring::builder().setup_coop_taskrun().setup_single_issuer().setup_defer_taskrun().build(entries);
    modern.or_else(|e| if e.raw_os_error() == Some(libc::EINVAL) { IoUring::new(entries) } else { Err(e) })
}

impl Drop for Uring {
    /// A ring is torn down by the kernel after its descriptor is closed (io_uring/io_uring.c, io_ring_exit_work): the file
    /// is given back here, or its file system would be in use for a while after the program has ended.
    fn drop(&mut self) {
        if self.registered {
            let _ = self.ring.submitter().unregister_files();
        }
    }
}

impl Engine for Uring {
    fn submit(&mut self, slot: usize, request: Request) -> io::Result<()> {
        let entry = self.entry(slot, request).user_data(slot as u64);
        self.push(entry)
    }

    fn next(&mut self, due: Option<Instant>) -> io::Result<Option<Completion>> {
        if let Some(done) = self.take_ready()? {
            return Ok(Some(done));
        }
        // Requests that are made at set times leave the device idle anyway.
        if due.is_none() {
            if let Some(done) = self.look()? {
                return Ok(Some(done));
            }
            // The bell's completion may have been among those that were taken: nothing else would end the sleep where the device hangs.
            if self.bell.is_rung() {
                self.enter(false, None)?;
                return Ok(self.ready());
            }
        }
        self.enter(true, due)?;
        self.looks.slept();
        Ok(self.ready())
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.buffers.get(slot)
    }

    fn looked(&self) -> Duration {
        self.looks.time
    }
}
