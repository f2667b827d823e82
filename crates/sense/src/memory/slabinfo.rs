//! /proc/slabinfo: kernel object caches. slabinfo(5); `cache_show` in mm/slab_common.c.

use crate::source::SourceInfo;
use crate::source_error::SourceError;
use crate::text::{number, word};
use crate::{Root, os};
use whyslow_model::catalogue::Slab;
use whyslow_model::snapshot::Snapshot;

/// Slow, because the kernel walks the lists of every cache under its lock.
pub(super) const INFO: SourceInfo = SourceInfo::new("proc/slabinfo", "kernel memory by object cache").slow();

pub(super) fn read(root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
    parse(&root.text(INFO.name)?, os::page_size(), &mut out.memory.slab)
}

/// Version 2.1, after its two header lines.
fn parse(text: &str, page_size: u64, rows: &mut Vec<Slab>) -> Result<(), SourceError> {
    for line in text.lines().filter(|line| !line.starts_with("slabinfo") && !line.starts_with('#')) {
        rows.push(row(line, page_size).ok_or_else(|| SourceError::malformed(INFO.name, line))?);
    }
    Ok(())
}

/// `name active_objs num_objs objsize objperslab pagesperslab : tunables ... : slabdata active_slabs num_slabs shared`
fn row(line: &str, page_size: u64) -> Option<Slab> {
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
        bytes: slab_count.saturating_mul(pages_per_slab).saturating_mul(page_size).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_cache_is_its_slabs_times_their_pages() {
        let mut rows = Vec::new();
        let text = "slabinfo - version: 2.1\n# name            <active_objs> ...\n\
                    dentry   17325  17346    192   21    2 : tunables    0    0    0 : slabdata    826    827      0\n";
        assert_eq!(parse(text, 4096, &mut rows), Ok(()));
        assert_eq!(&*rows[0].cache, "dentry");
        assert_eq!(rows[0].active_objects.get(), Some(17325.0));
        assert_eq!(rows[0].bytes.get(), Some(827.0 * 2.0 * 4096.0));
        let line = "dentry   17325  17346    192   21";
        assert_eq!(parse(line, 4096, &mut rows), Err(SourceError::malformed(INFO.name, line)));
    }
}
