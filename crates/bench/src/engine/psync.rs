//! psync engine: pread(2) and pwrite(2), with the code shared with mmap: requests complete when they are submitted.

use super::io_buffers::IoBuffers;
use super::{Completion, IoEngine, StopEvent};
use super::{IoOp, IoRequest};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

/// A file, a buffer, and the completion that has not been reaped yet.
pub(super) struct SyncIo {
    pub(super) file: Arc<File>,
    stop_event: Arc<StopEvent>,
    pub(super) buffer: IoBuffers,
    data_only: bool,
    done: Option<Completion>,
}

impl SyncIo {
    pub(super) fn new(file: Arc<File>, stop_event: Arc<StopEvent>, block: usize, data_only: bool) -> io::Result<Self> {
        Ok(Self { file, stop_event, buffer: IoBuffers::new(1, block)?, data_only, done: None })
    }

    /// Calls fdatasync(2) or fsync(2).
    pub(super) fn sync(&self) -> io::Result<usize> {
        if self.data_only { self.file.sync_data() } else { self.file.sync_all() }.map(|()| 0)
    }

    pub(super) fn complete(&mut self, slot: usize, result: io::Result<usize>) {
        self.done = Some(Completion::new(slot, result));
    }

    pub(super) fn next(&mut self, due: Option<Instant>) -> Option<Completion> {
        let done = self.done.take();
        if let (None, Some(due)) = (done, due) {
            self.stop_event.wait(due);
        }
        done
    }
}

pub(crate) struct Psync(SyncIo);

impl Psync {
    /// Creates an engine for blocks of up to `block` bytes.
    pub(crate) fn new(file: Arc<File>, stop_event: Arc<StopEvent>, block: usize, data_only: bool) -> io::Result<Self> {
        SyncIo::new(file, stop_event, block, data_only).map(Self)
    }
}

impl IoEngine for Psync {
    fn submit(&mut self, slot: usize, request: IoRequest) -> io::Result<()> {
        let block = &mut self.0.buffer.get(slot)[..request.bytes as usize];
        let result = match request.action {
            IoOp::Read => self.0.file.read_at(block, request.offset),
            IoOp::Write => self.0.file.write_at(block, request.offset),
            IoOp::Sync => self.0.sync(),
        };
        self.0.complete(slot, result);
        Ok(())
    }

    fn next(&mut self, due: Option<Instant>) -> io::Result<Option<Completion>> {
        Ok(self.0.next(due))
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.0.buffer.get(slot)
    }
}
