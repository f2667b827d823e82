//! Where a file lies on its device (Documentation/filesystems/fiemap.rst).

use std::fs::File;
use std::os::fd::AsRawFd;

/// A part of a file that lies in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Where it begins in the file, bytes.
    pub(super) logical: u64,
    /// Where it begins on the device, bytes; none where that is not known.
    pub(super) physical: Option<u64>,
    pub(super) size: u64,
}

/// struct fiemap (include/uapi/linux/fiemap.h), with room for some extents.
#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [FiemapExtent; COUNT],
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct FiemapExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_too: [u32; 3],
}

const COUNT: usize = 512;
/// `_IOWR('f', 11, struct fiemap)`, whose size is that without extents.
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;
/// What lies elsewhere, is compressed, shares its block or holds no data yet: unknown, delalloc, encoded, data encrypted, not
/// aligned, data inline, data tail, unwritten.
const NOT_PLAIN: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800;

/// The longest part of a file in one piece, among the first few hundred; none where the file system does not tell.
pub(super) fn longest(file: &File) -> Option<Extent> {
    let mut map = Fiemap {
        start: 0,
        length: u64::MAX,
        flags: 0,
        mapped: 0,
        count: COUNT as u32,
        reserved: 0,
        extents: [FiemapExtent::default(); COUNT],
    };
    // SAFETY: `map` is laid out as the kernel's header has it, with room for as many extents as it says.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) };
    if status != 0 {
        return None;
    }
    join(map.extents.get(..map.mapped as usize)?).into_iter().max_by_key(|extent| extent.size)
}

/// Extents that follow each other both in the file and on the device are one.
fn join(extents: &[FiemapExtent]) -> Vec<Extent> {
    let mut joined: Vec<Extent> = Vec::new();
    for extent in extents.iter().filter(|extent| extent.flags & NOT_PLAIN == 0) {
        let follows = |last: &Extent| {
            last.logical + last.size == extent.logical
                && last.physical.map(|at| at + last.size) == Some(extent.physical)
        };
        match joined.last_mut().filter(|last| follows(last)) {
            Some(last) => last.size += extent.length,
            None => {
                joined.push(Extent { logical: extent.logical, physical: Some(extent.physical), size: extent.length })
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_and_what_has_no_data_is_left_out() {
        let extent =
            |logical, physical, length, flags| FiemapExtent { logical, physical, length, flags, ..Default::default() };
        let extents =
            [extent(0, 100, 10, 0), extent(10, 110, 5, 0), extent(15, 300, 20, 1), extent(35, 400, 99, 0x800)];
        let joined = join(&extents);
        assert_eq!(joined[0], Extent { logical: 0, physical: Some(100), size: 15 });
        assert_eq!(joined[1], Extent { logical: 15, physical: Some(300), size: 20 });
        assert_eq!(joined.len(), 2);
    }
}
