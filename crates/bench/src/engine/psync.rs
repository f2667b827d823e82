//! pread(2) and pwrite(2): a request is done when the call returns.

use super::at_once::AtOnce;
use super::{Bell, Completion, Engine};
use crate::load::{Action, Request};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

/// One request at a time.
pub(crate) struct Psync(AtOnce);

impl Psync {
    /// On this file, with blocks of up to `block` bytes.
    ///
    /// # Errors
    /// Where memory is short.
    pub(crate) fn new(file: Arc<File>, bell: Arc<Bell>, block: usize, data_only: bool) -> io::Result<Self> {
        AtOnce::new(file, bell, block, data_only).map(Self)
    }
}

impl Engine for Psync {
    fn submit(&mut self, slot: usize, request: Request) -> io::Result<()> {
        let (file, block) = self.0.file_and_block(slot);
        let block = &mut block[..request.bytes as usize];
        let result = match request.action {
            Action::Read => file.read_at(block, request.offset),
            Action::Write => file.write_at(block, request.offset),
            Action::Sync => self.0.sync(),
        };
        self.0.finish(slot, result);
        Ok(())
    }

    fn next(&mut self, due: Option<Instant>) -> io::Result<Option<Completion>> {
        Ok(self.0.next(due))
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.0.buffer(slot)
    }
}
