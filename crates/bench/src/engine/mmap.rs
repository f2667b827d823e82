//! mmap: memory copied from and to a mapped file, through the page cache, without a system call per request.
//!
//! A device error, or truncation by another process, reaches a mapped file as SIGBUS, which kills the program. So only block
//! devices and files that the benchmark created itself are accepted.

use super::psync::SyncIo;
use super::{Completion, IoEngine, StopEvent};
use super::{IoOp, IoRequest};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Instant;

pub(crate) struct Mmap {
    io: SyncIo,
    start: NonNull<c_void>,
    length: usize,
}

impl Mmap {
    /// Maps the first `length` bytes; blocks have at most `block` bytes.
    pub(crate) fn new(
        file: Arc<File>,
        stop_event: Arc<StopEvent>,
        block: usize,
        data_only: bool,
        length: u64,
        writable: bool,
    ) -> io::Result<Self> {
        let io = SyncIo::new(file, stop_event, block, data_only)?;
        let size = usize::try_from(length).ok().and_then(NonZeroUsize::new).ok_or(io::ErrorKind::InvalidInput)?;
        let access = if writable { ProtFlags::PROT_READ | ProtFlags::PROT_WRITE } else { ProtFlags::PROT_READ };
        // SAFETY: a new mapping at an address the kernel chooses replaces nothing.
        let start = unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, &*io.file, 0)? };
        Ok(Self { io, start, length: size.get() })
    }

    /// Returns the mapped address of a request's data; `None` if it is outside the mapping.
    fn address(&self, request: IoRequest) -> Option<*mut u8> {
        let offset = usize::try_from(request.offset).ok()?;
        let end = offset.checked_add(request.bytes as usize)?;
        // SAFETY: `offset` is within the mapping, as just checked.
        (end <= self.length).then(|| unsafe { self.start.as_ptr().cast::<u8>().add(offset) })
    }
}

impl IoEngine for Mmap {
    fn submit(&mut self, slot: usize, request: IoRequest) -> io::Result<()> {
        let bytes = request.bytes as usize;
        let mapped = self.address(request).ok_or(io::ErrorKind::InvalidInput)?;
        let own = self.io.buffer.get(slot)[..bytes].as_mut_ptr();
        let result = match request.action {
            IoOp::Sync => self.io.sync(),
            action => {
                let (from, to) =
                    if action == IoOp::Read { (mapped.cast_const(), own) } else { (own.cast_const(), mapped) };
                // SAFETY: both ranges have `bytes` bytes, in different mappings; the file's is writable if the workload writes.
                unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
                Ok(bytes)
            }
        };
        self.io.complete(slot, result);
        Ok(())
    }

    fn next(&mut self, due: Option<Instant>) -> io::Result<Option<Completion>> {
        Ok(self.io.next(due))
    }

    fn buffer(&mut self, slot: usize) -> &mut [u8] {
        self.io.buffer.get(slot)
    }
}

impl Drop for Mmap {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length; nothing refers to it any more.
        let _ = unsafe { munmap(self.start, self.length) };
    }
}
