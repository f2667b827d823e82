//! Memory copied from and to a mapped file: the page cache, without a system call for each request.
//!
//! A device's error reaches a mapped file as SIGBUS, which ends the program; so would a file that another truncates. Only
//! files that the benchmark made itself, and block devices, are measured this way.

use super::at_once::AtOnce;
use super::{Bell, Completion, Engine};
use crate::load::{Action, Request};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

/// One request at a time, on a mapping of the whole file.
pub(crate) struct Mmap {
    at_once: AtOnce,
    start: NonNull<c_void>,
    length: usize,
}

impl Mmap {
    /// On the first `length` bytes of this file, with blocks of up to `block` bytes; without `writable` nothing is written.
    ///
    /// # Errors
    /// Where the file cannot be mapped.
    pub(crate) fn new(
        file: Arc<File>,
        bell: Arc<Bell>,
        block: usize,
        data_only: bool,
        length: u64,
        writable: bool,
    ) -> io::Result<Self> {
        let at_once = AtOnce::new(file, bell, block, data_only)?;
        let size = usize::try_from(length).ok().and_then(NonZeroUsize::new).ok_or(io::ErrorKind::InvalidInput)?;
        let access = if writable { ProtFlags::PROT_READ | ProtFlags::PROT_WRITE } else { ProtFlags::PROT_READ };
        // SAFETY: a new mapping at a place of the kernel's choice replaces nothing; `file` keeps it open as long as this.
        let start = unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, &*at_once.file, 0)? };
        Ok(Self { at_once, start, length: size.get() })
    }

    /// Where a request's bytes are mapped; none where they are not.
    fn place(&self, request: Request) -> Option<*mut u8> {
        let offset = usize::try_from(request.offset).ok()?;
        let end = offset.checked_add(request.bytes as usize)?;
        // SAFETY: `offset` is within the mapping, as just checked.
        (end <= self.length).then(|| unsafe { self.start.as_ptr().cast::<u8>().add(offset) })
    }
}

impl Engine for Mmap {
    fn submit(&mut self, slot: usize, request: Request) -> io::Result<()> {
        let bytes = request.bytes as usize;
        let mapped = self.place(request).ok_or(io::ErrorKind::InvalidInput)?;
        let own = self.at_once.buffer(slot)[..bytes].as_mut_ptr();
        let result = match request.action {
            Action::Sync => self.at_once.sync(),
            action => {
                let (from, to) =
                    if action == Action::Read { (mapped.cast_const(), own) } else { (own.cast_const(), mapped) };
                // SAFETY: `own` has `bytes` bytes, as the slice above says; `mapped` has as many within the mapping, which is
                // writable where the workload writes; the two are different mappings.
                unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
                Ok(bytes)
            }
        };
        self.at_once.finish(slot, result);
        Ok(())
    }

    fn next(&mut self, due: Option<Instant>) -> io::Result<Option<Completion>> {
        Ok(self.at_once.next(due))
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.at_once.buffer(slot)
    }
}

impl Drop for Mmap {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length and nothing refers to it any more.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}
