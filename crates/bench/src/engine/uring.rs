//! io_uring(7), with registered buffers and a registered file.
//!
//! Each completion is followed by a new submission at once: reaping all and then submitting all would drain the device's queue.

use super::io_buffers::IoBuffers;
use super::{Completion, IoEngine, StopEvent};
use super::{IoOp, IoRequest};
use io_uring::types::{Fd, Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, opcode, squeue};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

/// `user_data` of the read on the stop event.
const STOP_EVENT: u64 = u64::MAX;

pub(crate) struct Uring {
    // First, so that the ring is dropped, and the kernel's references with it, before buffers and files.
    ring: IoUring,
    buffers: IoBuffers,
    file: Arc<File>,
    stop_event: Arc<StopEvent>,
    /// The kernel writes to it when the stop event fires, so it must not move.
    stop_count: Box<u64>,
    data_only: bool,
    registered: bool,
}

impl Uring {
    /// Creates a ring with `depth` slots for blocks of up to `block` bytes. Fails without io_uring, or if this user may
    /// not use it.
    pub(crate) fn new(
        file: Arc<File>,
        stop_event: Arc<StopEvent>,
        depth: usize,
        block: usize,
        data_only: bool,
    ) -> io::Result<Self> {
        // One more entry for the stop event.
        let entries = u32::try_from(depth + 1).unwrap_or(u32::MAX);
        let mut engine = Self::on(ring(entries)?, file, stop_event, depth, block, data_only)?;
        engine.watch_stop_event()?;
        Ok(engine)
    }

    fn on(
        ring: IoUring,
        file: Arc<File>,
        stop_event: Arc<StopEvent>,
        depth: usize,
        block: usize,
        data_only: bool,
    ) -> io::Result<Self> {
        let buffers = IoBuffers::new(depth, block)?;
        // SAFETY: the pages stay mapped, at the same address, until the ring is gone: see the order of the fields.
        let registered = unsafe { ring.submitter().register_buffers(&[buffers.iovec()]) }.is_ok()
            && ring.submitter().register_files(&[file.as_raw_fd()]).is_ok();
        Ok(Self { ring, buffers, file, stop_event, stop_count: Box::new(0), data_only, registered })
    }

    fn watch_stop_event(&mut self) -> io::Result<()> {
        let event: RawFd = self.stop_event.event.as_raw_fd();
        let read = opcode::Read::new(Fd(event), (&raw mut *self.stop_count).cast(), size_of::<u64>() as u32);
        self.push(read.build().user_data(STOP_EVENT))
    }

    fn push(&mut self, entry: squeue::Entry) -> io::Result<()> {
        // SAFETY: buffers and `stop_count`, to which entries point, live and stay in place until the ring is gone.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::Error::other("the submission queue is full"))
    }

    fn entry(&self, slot: usize, request: IoRequest) -> squeue::Entry {
        let (address, bytes, offset) = (self.buffers.address(slot), request.bytes, request.offset);
        let flags = if self.data_only { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
        let plain = Fd(self.file.as_raw_fd());
        match (request.action, self.registered) {
            (IoOp::Read, true) => opcode::ReadFixed::new(Fixed(0), address, bytes, 0).offset(offset).build(),
            (IoOp::Write, true) => opcode::WriteFixed::new(Fixed(0), address, bytes, 0).offset(offset).build(),
            (IoOp::Sync, true) => opcode::Fsync::new(Fixed(0)).flags(flags).build(),
            (IoOp::Read, false) => opcode::Read::new(plain, address, bytes).offset(offset).build(),
            (IoOp::Write, false) => opcode::Write::new(plain, address, bytes).offset(offset).build(),
            (IoOp::Sync, false) => opcode::Fsync::new(plain).flags(flags).build(),
        }
    }

    /// Returns a completion that is already in the queue, skipping that of the stop event.
    fn ready(&mut self) -> Option<Completion> {
        loop {
            let entry = self.ring.completion().next()?;
            if entry.user_data() != STOP_EVENT {
                return Some(Completion { slot: entry.user_data() as usize, result: i64::from(entry.result()) });
            }
        }
    }

    /// Returns a completion that is already in the queue; submits new requests first, or the device would idle while
    /// completions are handled.
    fn take_ready(&mut self) -> io::Result<Option<Completion>> {
        let done = self.ready();
        if done.is_some() && !self.ring.submission().is_empty() {
            self.enter(false, None)?;
        }
        Ok(done)
    }

    /// Submits new requests and posts completions; with `wait`, blocks until there is one or until `due`.
    fn enter(&mut self, wait: bool, due: Option<Instant>) -> io::Result<()> {
        let new = u32::try_from(self.ring.submission().len()).unwrap_or(u32::MAX);
        let kernel = self.ring.submitter();
        let entered = match due.filter(|_| wait) {
            // SAFETY: no pointer is passed.
            None => unsafe { kernel.enter::<libc::sigset_t>(new, u32::from(wait), EnterFlags::GETEVENTS.bits(), None) },
            Some(due) => {
                let time = Timespec::from(due.saturating_duration_since(Instant::now()));
                kernel.submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        match entered {
            Err(e) if !is_transient(&e) => Err(e),
            _ => Ok(()),
        }
    }
}

/// Returns whether the error is a timeout, signal, or memory pressure: entries that were not submitted stay in the ring
/// for the next call.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

/// Creates a ring that defers task work to the waiting thread instead of interrupting it, if the kernel supports that
/// (6.1).
fn ring(entries: u32) -> io::Result<IoUring> {
    let modern = IoUring::builder().setup_coop_taskrun().setup_single_issuer().setup_defer_taskrun().build(entries);
    modern.or_else(|e| if e.raw_os_error() == Some(libc::EINVAL) { IoUring::new(entries) } else { Err(e) })
}

impl Drop for Uring {
    /// The kernel tears a ring down after its descriptor is closed (io_uring/io_uring.c, io_ring_exit_work). Unregistering the
    /// file now keeps its file system from staying busy for a while after the program has ended.
    fn drop(&mut self) {
        if self.registered {
            let _ = self.ring.submitter().unregister_files();
        }
    }
}

impl IoEngine for Uring {
    fn submit(&mut self, slot: usize, request: IoRequest) -> io::Result<()> {
        let entry = self.entry(slot, request).user_data(slot as u64);
        self.push(entry)
    }

    fn next(&mut self, due: Option<Instant>) -> io::Result<Option<Completion>> {
        if let Some(done) = self.take_ready()? {
            return Ok(Some(done));
        }
        // The stop event's completion comes once and may have been skipped already: then nothing would end the wait for
        // a hung device.
        let wait = due.is_some() || !self.stop_event.is_signalled();
        self.enter(wait, due)?;
        Ok(self.ready())
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.buffers.get(slot)
    }
}

/// A ring whose waiting thread polls the device instead of being woken by interrupts (io_uring_setup(2),
/// IORING_SETUP_IOPOLL). Only for direct reads and writes on devices with polled queues.
pub(crate) struct PolledUring {
    ring: Uring,
    stop_reported: bool,
}

impl PolledUring {
    pub(crate) fn new(file: Arc<File>, stop_event: Arc<StopEvent>, depth: usize, block: usize) -> io::Result<Self> {
        let entries = u32::try_from(depth).unwrap_or(u32::MAX);
        let ring = IoUring::builder().setup_iopoll().setup_single_issuer().build(entries)?;
        // Such a ring cannot wait for an eventfd; `next` checks the stop event instead.
        Ok(Self { ring: Uring::on(ring, file, stop_event, depth, block, false)?, stop_reported: false })
    }
}

impl IoEngine for PolledUring {
    fn submit(&mut self, slot: usize, request: IoRequest) -> io::Result<()> {
        self.ring.submit(slot, request)
    }

    fn next(&mut self, due: Option<Instant>) -> io::Result<Option<Completion>> {
        loop {
            if let Some(done) = self.ring.take_ready()? {
                return Ok(Some(done));
            }
            let newly_stopped = self.ring.stop_event.is_signalled() && !self.stop_reported;
            self.stop_reported |= newly_stopped;
            if newly_stopped || due.is_some_and(|due| Instant::now() >= due) {
                return Ok(None);
            }
            // With a deadline, poll once; otherwise the kernel polls until something completes or the thread is preempted.
            self.ring.enter(due.is_none(), None)?;
        }
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.ring.buffer(slot)
    }
}
