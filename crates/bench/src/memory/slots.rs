//! Memory that the kernel can transfer to and from directly: whole pages.

use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// Pages of memory, zeroed, cut into slots of one size.
#[derive(Debug)]
pub(crate) struct Slots {
    /// All that is mapped.
    mapped: NonNull<c_void>,
    length: usize,
    /// Where the first slot begins.
    start: NonNull<u8>,
    slot: usize,
    count: usize,
}

/// What a slot's size is rounded up to. O_DIRECT wants buffers aligned to the device's block, which is at most a page.
const PAGE: usize = 4096;
/// What begins here fills whole huge pages.
const HUGE: usize = 2 << 20;
/// Slots from this size on are asked for in huge pages. A registered buffer lies in as many places as it has pages. The kernel cuts
/// a request for more of them than the device can be told of (max_segments of its queue: a virtio disk that can be told of 254 gets
/// 1 MiB in two), and a virtual disk's host goes through them one by one.
const LARGE: usize = 256 << 10;

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
        let is_large = slot >= LARGE;
        let bytes = slot.checked_mul(count);
        let length =
            if is_large { bytes.and_then(|b| b.checked_next_multiple_of(HUGE)?.checked_add(HUGE)) } else { bytes };
        let length = length.and_then(NonZeroUsize::new).ok_or(io::ErrorKind::OutOfMemory)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_PRIVATE | if is_large { MapFlags::empty() } else { MapFlags::MAP_POPULATE };
        // SAFETY: a new anonymous mapping at a place of the kernel's choice replaces nothing.
        let mapped = unsafe { mmap_anonymous(None, length, access, flags)? };
        let before = if is_large { mapped.cast::<u8>().align_offset(HUGE) } else { 0 };
        // SAFETY: less than `HUGE`, and the mapping is longer than the slots, in whole huge pages, by that.
        let start = unsafe { mapped.cast::<u8>().add(before) };
        let mut slots = Self { mapped, length: length.get(), start, slot, count };
        if is_large {
            slots.fill_with_huge_pages();
        }
        Ok(slots)
    }

    /// Has its pages come now, as huge ones where the kernel has them.
    fn fill_with_huge_pages(&mut self) {
        let bytes = self.slot * self.count;
        // SAFETY: advice on pages of our own. Without it there are small ones.
        let _ = unsafe { madvise(self.start.cast(), bytes.next_multiple_of(HUGE), MmapAdvise::MADV_HUGEPAGE) };
        for slot in 0..self.count {
            self.get(slot).iter_mut().step_by(PAGE).for_each(|byte| *byte = 0);
        }
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
        let _ = unsafe { munmap(self.mapped, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_zeroed_apart_and_large_ones_begin_where_a_huge_page_does() {
        for (count, bytes, aligned) in [(3, 1000, PAGE), (1, LARGE, HUGE), (5, (1 << 20) + 1, HUGE)] {
            let mut slots = Slots::new(count, bytes).unwrap();
            assert_eq!(slots.address(0).addr() % aligned, 0);
            for slot in 0..count {
                assert!(slots.get(slot).len() >= bytes && slots.get(slot).iter().all(|byte| *byte == 0));
                slots.get(slot).fill(slot as u8 + 1);
            }
            assert!((0..count).all(|slot| slots.get(slot).iter().all(|byte| *byte == slot as u8 + 1)));
        }
        assert!(Slots::new(usize::MAX, 1 << 20).is_err() && Slots::new(1, usize::MAX / 2).is_err());
    }
}
