//! Requests that are done when they are submitted, one at a time: what psync and mmap have in common.

use super::{Bell, Completion};
use crate::memory::Slots;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Instant;

/// The file, the one block, and the request that is done and not told of yet.
pub(super) struct AtOnce {
    pub(super) file: Arc<File>,
    bell: Arc<Bell>,
    buffer: Slots,
    data_only: bool,
    done: Option<Completion>,
}

impl AtOnce {
    /// On this file, with blocks of up to `block` bytes.
    ///
    /// # Errors
    /// Where memory is short.
    pub(super) fn new(file: Arc<File>, bell: Arc<Bell>, block: usize, data_only: bool) -> io::Result<Self> {
        Ok(Self { file, bell, buffer: Slots::new(1, block)?, data_only, done: None })
    }

    pub(super) fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.buffer.get(slot)
    }

    /// The file and the block of a request.
    pub(super) fn file_and_block(&mut self, slot: usize) -> (&File, &mut [u8]) {
        (&self.file, self.buffer.get(slot))
    }

    /// fdatasync(2) or fsync(2).
    pub(super) fn sync(&self) -> io::Result<usize> {
        if self.data_only { self.file.sync_data() } else { self.file.sync_all() }.map(|()| 0)
    }

    /// Notes how the request ended.
    pub(super) fn finish(&mut self, slot: usize, result: io::Result<usize>) {
        self.done = Some(Completion::of(slot, result));
    }

    /// What is done; where nothing is, it waits until `due`.
    pub(super) fn next(&mut self, due: Option<Instant>) -> Option<Completion> {
        let done = self.done.take();
        if let (None, Some(due)) = (done, due) {
            self.bell.wait(due);
        }
        done
    }
}
