//! Drops the caches of the whole machine, so that the next measurement starts cold.

use crate::available_memory::meminfo;
use crate::{Error, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Instant;
use whyslow_documents::bench::{CacheSizes, DroppedCaches};
use whyslow_sense::Root;

/// Page cache, then dentries and inodes (Documentation/admin-guide/sysctl/vm.rst, drop_caches).
const EVERYTHING: &str = "3";

/// Writes dirty data to the disks, then drops page cache, dentries and inodes. No data is lost; programs must read from
/// the disk again.
///
/// # Errors
/// Fails without root; nothing is dropped then.
pub fn drop_caches() -> Result<DroppedCaches> {
    let file = Path::new("/proc/sys/vm/drop_caches");
    let start = Instant::now();
    let before = sizes();
    // Dirty pages are not dropped.
    nix::unistd::sync();
    fs::write(file, EVERYTHING).map_err(|e| match e.kind() {
        ErrorKind::PermissionDenied => Error::new("dropping the machine's caches needs root"),
        _ => Error::at(file, "cannot drop caches", &e),
    })?;
    Ok(DroppedCaches {
        schema: DroppedCaches::SCHEMA.to_owned(),
        before,
        after: sizes(),
        seconds: start.elapsed().as_secs_f64(),
    })
}

fn sizes() -> CacheSizes {
    let root = Root::live();
    let of = |names: &[&str]| names.iter().filter_map(|name| meminfo(&root, name)).sum();
    CacheSizes { page_cache: of(&["Cached:", "Buffers:"]), reclaimable_slab: of(&["SReclaimable:"]) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_cache::cached;
    use crate::skip::{is_root, skip};
    use std::io::Write;

    #[test]
    fn a_file_is_no_longer_cached_and_keeps_its_content() {
        if !is_root() {
            return;
        }
        let mut file = whyslow_testing::file_in("/var/tmp");
        file.write_all(&vec![7; 4 << 20]).unwrap();
        let Some(before) = cached(file.as_file()) else { return skip("this kernel has no cachestat(2)") };
        assert_eq!(before, 4 << 20);
        let dropped = drop_caches().unwrap();
        assert_eq!(cached(file.as_file()), Some(0));
        assert!(dropped.before.page_cache >= 4 << 20, "{dropped:?}");
        assert_eq!(fs::read(file.path()).unwrap(), vec![7; 4 << 20]);
    }
}
