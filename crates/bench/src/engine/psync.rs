//! pread(2) and pwrite(2): a request is done when the call returns.

use super::{Bell, Completion, Engine};
use crate::load::{Action, Request};
use crate::memory::Slots;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

/// One request at a time.
pub(crate) struct Psync {
    file: Arc<File>,
    bell: Arc<Bell>,
    buffer: Slots,
    data_only: bool,
    done: Option<Completion>,
}

impl Psync {
    /// On this file, with blocks of up to `block` bytes.
    ///
    /// # Errors
    /// Where memory is short.
    pub(crate) fn new(file: Arc<File>, bell: Arc<Bell>, block: usize, data_only: bool) -> io::Result<Self> {
        Ok(Self { file, bell, buffer: Slots::new(1, block)?, data_only, done: None })
    }
}

impl Engine for Psync {
    fn submit(&mut self, slot: usize, request: Request) -> io::Result<()> {
        let block = &mut self.buffer.get(slot)[..request.bytes as usize];
        let result = match request.action {
            Action::Read => self.file.read_at(block, request.offset),
            Action::Write => self.file.write_at(block, request.offset),
            Action::Sync => sync(&self.file, self.data_only),
        };
        self.done = Some(Completion::of(slot, result));
        Ok(())
    }

    fn next(&mut self, due: Option<Instant>) -> io::Result<Option<Completion>> {
        let done = self.done.take();
        if let (None, Some(due)) = (done, due) {
            self.bell.wait(due);
        }
        Ok(done)
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.buffer.get(slot)
    }
}

/// fdatasync(2) or fsync(2).
pub(super) fn sync(file: &File, data_only: bool) -> io::Result<usize> {
    if data_only { file.sync_data() } else { file.sync_all() }.map(|()| 0)
}
