//! I/O buffers: page-aligned, as O_DIRECT needs them, and in huge pages if they are large.

use crate::memory_region::{MemoryRegion, PageKind, base_page};
use std::ffi::c_void;
use std::io;

#[derive(Debug)]
pub(crate) struct IoBuffers {
    mapping: MemoryRegion,
    size: usize,
    count: usize,
}

/// Minimum block size for huge pages. A registered buffer has one segment per page: the kernel splits a request with
/// more segments than the device accepts (queue/max_segments; a virtio disk with 254 gets 1 MiB in two), and the host
/// of a virtual disk handles each segment separately.
const LARGE: usize = 256 << 10;

impl IoBuffers {
    /// Allocates `count` zeroed buffers of at least `bytes` bytes each.
    pub(crate) fn new(count: usize, bytes: usize) -> io::Result<Self> {
        let size = bytes.max(1).checked_next_multiple_of(base_page()).ok_or(io::ErrorKind::OutOfMemory)?;
        let count = count.max(1);
        let total = size.checked_mul(count).ok_or(io::ErrorKind::OutOfMemory)? as u64;
        let huge = (size >= LARGE).then(|| MemoryRegion::new(total, PageKind::Transparent, None).ok()).flatten();
        let mut mapping = huge.map_or_else(|| MemoryRegion::new(total, PageKind::Base, None), Ok)?;
        // Fault all pages in before anything is measured.
        mapping.as_u64().fill(0);
        Ok(Self { mapping, size, count })
    }

    pub(crate) fn iovec(&self) -> libc::iovec {
        libc::iovec { iov_base: self.mapping.start().cast::<c_void>(), iov_len: self.size * self.count }
    }

    pub(crate) fn address(&self, at: usize) -> *mut u8 {
        assert!(at < self.count);
        // SAFETY: buffer `at` lies within the mapping, as just checked.
        unsafe { self.mapping.start().add(at * self.size) }
    }

    pub(crate) fn get(&mut self, at: usize) -> &mut [u8] {
        let address = self.address(at);
        // SAFETY: `size` bytes from there on are mapped and initialised; `&mut self` makes this the only reference. The
        // kernel writes to a buffer only while a request on it is in flight, and callers do not request the buffer
        // then.
        unsafe { std::slice::from_raw_parts_mut(address, self.size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory_region::huge_page;

    #[test]
    fn buffers_are_zeroed_and_separate_and_large_ones_start_at_a_huge_page() {
        for (count, bytes, aligned) in [(3, 1000, 4096), (1, LARGE, huge_page()), (5, (1 << 20) + 1, huge_page())] {
            let mut buffers = IoBuffers::new(count, bytes).unwrap();
            assert_eq!(buffers.address(0).addr() % aligned, 0);
            for at in 0..count {
                assert!(buffers.get(at).len() >= bytes && buffers.get(at).iter().all(|byte| *byte == 0));
                buffers.get(at).fill(at as u8 + 1);
            }
            assert!((0..count).all(|at| buffers.get(at).iter().all(|byte| *byte == at as u8 + 1)));
        }
        assert!(IoBuffers::new(usize::MAX, 1 << 20).is_err() && IoBuffers::new(1, usize::MAX / 2).is_err());
    }
}
