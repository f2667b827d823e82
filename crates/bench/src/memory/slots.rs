//! Memory that the kernel can transfer to and from directly: whole pages.

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// Pages of memory, zeroed, cut into slots of one size.
#[derive(Debug)]
pub(crate) struct Slots {
    start: NonNull<u8>,
    slot: usize,
    count: usize,
}

/// What a slot's size is rounded up to. O_DIRECT wants buffers aligned to the device's block, which is at most a page.
const PAGE: usize = 4096;

// SAFETY: the pages belong to this value alone, and are reached through `&mut self` only.
unsafe impl Send for Slots {}

impl Slots {
    /// `count` slots of at least `bytes` bytes each.
    ///
    /// # Errors
    /// Where there is no such amount of memory.
    pub(crate) fn new(count: usize, bytes: usize) -> io::Result<Self> {
        let slot = bytes.max(1).next_multiple_of(PAGE);
        let count = count.max(1);
        let length = slot.checked_mul(count).and_then(NonZeroUsize::new).ok_or(io::ErrorKind::OutOfMemory)?;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_POPULATE;
        // SAFETY: a new anonymous mapping at a place of the kernel's choice replaces nothing.
        let start = unsafe { mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, flags)? };
        Ok(Self { start: start.cast(), slot, count })
    }

    /// All of it.
    pub(crate) fn whole(&self) -> libc::iovec {
        libc::iovec { iov_base: self.start.as_ptr().cast::<c_void>(), iov_len: self.slot * self.count }
    }

    /// Where slot `at` begins.
    pub(crate) fn address(&self, at: usize) -> *mut u8 {
        assert!(at < self.count);
        // SAFETY: slot `at` lies within the mapping, as just checked.
        unsafe { self.start.as_ptr().add(at * self.slot) }
    }

    /// Slot `at`.
    pub(crate) fn get(&mut self, at: usize) -> &mut [u8] {
        let address = self.address(at);
        // SAFETY: `slot` bytes from there on are mapped and were zeroed by the kernel; `&mut self` makes this the only
        // reference. The kernel writes to a slot only while a request on it is in flight, when callers do not ask for it.
        unsafe { std::slice::from_raw_parts_mut(address, self.slot) }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this length and nothing refers to it any more. Failure leaves it mapped.
        let _ = unsafe { munmap(self.start.cast(), self.slot * self.count) };
    }
}
