//! Location of a file's data (Documentation/filesystems/fiemap.rst).

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};
use std::fs::File;
use std::os::fd::AsRawFd;

/// A contiguous part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Offset in the file, bytes.
    pub(crate) logical: u64,
    /// Offset on the device, bytes; `None` if unknown.
    pub(crate) physical: Option<u64>,
    pub(crate) size: u64,
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
/// ioctl number `_IOWR('f', 11, struct fiemap)`; the encoded size excludes the extents.
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;
/// Writes back delayed allocations first, so that written data counts as written.
const FIEMAP_FLAG_SYNC: u32 = 0x1;
const FIEMAP_EXTENT_LAST: u32 = 0x1;
const FIEMAP_EXTENT_UNWRITTEN: u32 = 0x800;
/// Extents that cannot be read at their physical offset: unknown, delalloc, encoded, data encrypted, not aligned, data inline,
/// data tail, unwritten.
const NOT_READABLE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400 | FIEMAP_EXTENT_UNWRITTEN;

/// Returns up to [`COUNT`] extents from `start` on; `None` if the file system does not report them.
fn fiemap(file: &File, start: u64, flags: u32) -> Option<Vec<FiemapExtent>> {
    let mut map = Fiemap {
        start,
        length: u64::MAX - start,
        flags,
        mapped: 0,
        count: COUNT as u32,
        reserved: 0,
        extents: [FiemapExtent::default(); COUNT],
    };
    // SAFETY: `map` is laid out as in the kernel's header, with room for as many extents as `count` says.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) };
    (status == 0).then(|| map.extents.iter().take(map.mapped as usize).copied().collect())
}

/// Returns the bytes of a file that were written: neither holes nor preallocated. `None` if the file system does not
/// report this.
pub(crate) fn written(file: &File) -> Option<u64> {
    written_extents(file).or_else(|| between_holes(file))
}

fn written_extents(file: &File) -> Option<u64> {
    let size = file.metadata().ok()?.len();
    let (mut start, mut written) = (0, 0_u64);
    while start < size {
        let extents = fiemap(file, start, FIEMAP_FLAG_SYNC)?;
        let Some(last) = extents.last() else { break };
        for extent in extents.iter().filter(|extent| extent.flags & FIEMAP_EXTENT_UNWRITTEN == 0) {
            let end = extent.logical.saturating_add(extent.length).min(size);
            written += end.saturating_sub(extent.logical.max(start));
        }
        let end = last.logical.saturating_add(last.length);
        if last.flags & FIEMAP_EXTENT_LAST != 0 || end <= start {
            break;
        }
        start = end;
    }
    Some(written)
}

/// Counts the written bytes with lseek(2), which may count preallocated space as data.
fn between_holes(file: &File) -> Option<u64> {
    let size = i64::try_from(file.metadata().ok()?.len()).ok()?;
    let (mut at, mut written) = (0, 0_u64);
    while at < size {
        let data = match lseek(file, at, Whence::SeekData) {
            Ok(data) => data,
            // Only a hole is left.
            Err(Errno::ENXIO) => break,
            Err(_) => return None,
        };
        let hole = lseek(file, data, Whence::SeekHole).ok()?.min(size);
        written += u64::try_from(hole - data).ok()?;
        at = hole;
    }
    lseek(file, 0, Whence::SeekSet).ok()?;
    Some(written)
}

/// Returns the longest contiguous part among the first [`COUNT`] extents.
pub(crate) fn longest(file: &File) -> Option<Extent> {
    join(&fiemap(file, 0, 0)?).into_iter().max_by_key(|extent| extent.size)
}

/// Joins extents that are adjacent both in the file and on the device.
fn join(extents: &[FiemapExtent]) -> Vec<Extent> {
    let mut joined: Vec<Extent> = Vec::new();
    for extent in extents.iter().filter(|extent| extent.flags & NOT_READABLE == 0) {
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
    fn holes_and_preallocated_space_do_not_count_as_written() {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.set_len(8 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![1; 1 << 20], 2 << 20).unwrap();
        assert_eq!(written(&file), Some(1 << 20));
        assert_eq!(between_holes(&file), Some(1 << 20));
        nix::fcntl::fallocate(&file, nix::fcntl::FallocateFlags::empty(), 0, 8 << 20).unwrap();
        assert_eq!(written_extents(&file), Some(1 << 20));
    }

    #[test]
    fn adjacent_extents_are_joined_and_unwritten_ones_left_out() {
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
