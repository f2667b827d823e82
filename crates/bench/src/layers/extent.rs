//! Where a file lies on its device (Documentation/filesystems/fiemap.rst).

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};
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

/// Has the file system write what it holds back, so that what was written counts as that.
const FIEMAP_FLAG_SYNC: u32 = 0x1;
const FIEMAP_EXTENT_LAST: u32 = 0x1;
const FIEMAP_EXTENT_UNWRITTEN: u32 = 0x800;

/// Bytes of a file that hold data, and not a hole or room that was set aside and never written; none where the file system does
/// not tell.
pub(crate) fn written(file: &File) -> Option<u64> {
    mapped_and_written(file).or_else(|| between_holes(file))
}

fn mapped_and_written(file: &File) -> Option<u64> {
    let size = file.metadata().ok()?.len();
    let (mut start, mut written) = (0, 0_u64);
    while start < size {
        let mut map = Fiemap {
            start,
            length: size - start,
            flags: FIEMAP_FLAG_SYNC,
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
        let extents = map.extents.get(..map.mapped as usize)?;
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

/// The same by lseek(2), to which room that was set aside may be data.
fn between_holes(file: &File) -> Option<u64> {
    let size = i64::try_from(file.metadata().ok()?.len()).ok()?;
    let (mut at, mut written) = (0, 0_u64);
    while at < size {
        let data = match lseek(file, at, Whence::SeekData) {
            Ok(data) => data,
            // Nothing but holes from here on.
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
    fn holes_and_room_that_was_only_set_aside_are_not_written() {
        let file = tempfile::tempfile_in("/var/tmp").unwrap();
        file.set_len(8 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &vec![1; 1 << 20], 2 << 20).unwrap();
        assert_eq!(written(&file), Some(1 << 20));
        assert_eq!(between_holes(&file), Some(1 << 20));
        nix::fcntl::fallocate(&file, nix::fcntl::FallocateFlags::empty(), 0, 8 << 20).unwrap();
        assert_eq!(mapped_and_written(&file), Some(1 << 20));
    }

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
