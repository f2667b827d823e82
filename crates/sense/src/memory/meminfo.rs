//! Memory in use, by purpose: /proc/meminfo (Documentation/filesystems/proc.rst, section 1.2), /proc/swaps (proc_swaps(5)), and
//! the kernel's object caches, /proc/slabinfo (slabinfo(5)).

use crate::source::SourceInfo;
use crate::source_error::SourceError;
use crate::text::{decimal, number, octal, unescape, word};
use crate::{Root, os};
use whyslow_model::catalogue::{Meminfo, Slab, Swap};
use whyslow_model::key::MachineKey;
use whyslow_model::snapshot::Snapshot;
use whyslow_model::value::Gauge;
use whyslow_proc::meminfo::take;

pub(super) const MEMINFO: SourceInfo = SourceInfo::new("proc/meminfo", "what holds memory");
pub(super) const SWAPS: SourceInfo = SourceInfo::new("proc/swaps", "swap areas");
/// Slow, because the kernel walks the lists of every cache under its lock.
pub(super) const SLABS: SourceInfo = SourceInfo::new("proc/slabinfo", "kernel memory by object cache").slow();

/// Reads /proc/meminfo; skips lines that are not in the catalogue.
pub(super) fn read_meminfo(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let text = root.polled_text(MEMINFO.name)?;
    let (mut row, mut metric) = (Meminfo::new(MachineKey), String::with_capacity(32));
    let malformed = text.lines().find(|line| take(line, &mut row, &mut metric).is_none());
    out.memory.meminfo.push(row);
    malformed.map_or(Ok(()), |line| Err(SourceError::malformed(MEMINFO.name, line)))
}

/// Reads /proc/swaps: a header, then one line for each area, sizes in KiB.
pub(super) fn read_swaps(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    for line in root.polled_text(SWAPS.name)?.lines().skip(1) {
        out.memory.swap.push(area(line).ok_or_else(|| SourceError::malformed(SWAPS.name, line))?);
    }
    Ok(())
}

fn area(mut line: &str) -> Option<Swap> {
    let fields = &mut line;
    Some(Swap {
        area: unescape(word(fields)?, octal).into(),
        kind: word(fields)?.into(),
        size: kib(number(fields)?),
        used: kib(number(fields)?),
        priority: decimal(fields)?.into(),
    })
}

fn kib(value: u64) -> Gauge {
    value.saturating_mul(1024).into()
}

/// Reads /proc/slabinfo version 2.1, after its two header lines.
pub(super) fn read_slabs(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    let text = root.text(SLABS.name)?;
    for line in text.lines().filter(|line| !line.starts_with("slabinfo") && !line.starts_with('#')) {
        out.memory.slab.push(slab(line).ok_or_else(|| SourceError::malformed(SLABS.name, line))?);
    }
    Ok(())
}

/// Parses `name active_objs num_objs objsize objperslab pagesperslab : tunables ... : slabdata active_slabs num_slabs shared`.
fn slab(line: &str) -> Option<Slab> {
    let (mut objects, rest) = line.split_once(" : tunables")?;
    let (_, mut slabs) = rest.split_once(" : slabdata")?;
    let cache = word(&mut objects)?;
    let (active, total) = (number(&mut objects)?, number(&mut objects)?);
    let (_object_size, _objects_per_slab) = (number(&mut objects)?, number(&mut objects)?);
    let pages_per_slab = number(&mut objects)?;
    let (_active_slabs, slab_count) = (number(&mut slabs)?, number(&mut slabs)?);
    Some(Slab {
        cache: cache.into(),
        active_objects: active.into(),
        objects: total.into(),
        bytes: slab_count.saturating_mul(pages_per_slab).saturating_mul(os::page_size()).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::stateless;
    use crate::testing::CapturedTree;

    /// Reads the only file of a tree.
    fn read(
        info: SourceInfo,
        read: fn(&Root, &mut Snapshot) -> Result<(), SourceError>,
        text: &str,
    ) -> (Result<(), SourceError>, Snapshot) {
        CapturedTree::with_files(&[(info.name, text)]).read(&mut *stateless(info, read))
    }

    #[test]
    fn missing_lines_are_absent_and_a_truncated_line_an_error() {
        let (outcome, out) = read(MEMINFO, read_meminfo, "MemFree: 4 kB\nHugePages_Total:       5\nCach");
        assert_eq!(outcome, Err(SourceError::malformed(MEMINFO.name, "Cach")));
        assert_eq!((out.memory.meminfo[0].mem_free.get(), out.memory.meminfo[0].cached.get()), (Some(4096.0), None));
    }

    const AREAS: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
        /dev/zram0 partition\t1048572\t\t4\t\t-2\n/swap\\040file\\040(deleted) file 8 0 5\n";

    #[test]
    fn areas_are_in_bytes_with_their_priority() {
        let (outcome, out) = read(SWAPS, read_swaps, AREAS);
        let [zram, file] = &out.memory.swap[..] else { panic!("{outcome:?} {:?}", out.memory.swap) };
        assert_eq!((&*zram.area, zram.kind.get()), ("/dev/zram0", Some("partition")));
        assert_eq!((zram.size.get(), zram.used.get()), (Some(1_048_572.0 * 1024.0), Some(4096.0)));
        assert_eq!((zram.priority.get(), &*file.area), (Some(-2.0), "/swap file (deleted)"));
    }

    #[test]
    fn no_area_is_fine_and_half_an_area_an_error() {
        let header = AREAS.lines().next().unwrap();
        assert_eq!(read(SWAPS, read_swaps, header).0, Ok(()));
        let line = "/dev/sda2 partition 10";
        let (outcome, out) = read(SWAPS, read_swaps, &format!("{header}\n{line}"));
        assert_eq!((outcome, out.memory.swap.len()), (Err(SourceError::malformed(SWAPS.name, line)), 0));
    }

    #[test]
    fn only_octal_escapes_are_decoded() {
        assert_eq!(unescape(r"/a\0é\134b\", octal), r"/a\0é\b\");
    }

    #[test]
    fn the_size_of_a_cache_is_its_slabs_times_their_pages() {
        let line = "dentry   17325  17346    192   21";
        let text = "slabinfo - version: 2.1\n# name            <active_objs> ...\n\
                    dentry   17325  17346    192   21    2 : tunables    0    0    0 : slabdata    826    827      0\n";
        let (outcome, out) = read(SLABS, read_slabs, &format!("{text}{line}"));
        let slab = &out.memory.slab[0];
        assert_eq!((&*slab.cache, slab.active_objects.get()), ("dentry", Some(17325.0)));
        assert_eq!(slab.bytes.get(), Some(827.0 * 2.0 * os::page_size() as f64));
        assert_eq!(outcome, Err(SourceError::malformed(SLABS.name, line)));
    }
}
