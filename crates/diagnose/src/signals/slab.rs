//! Object caches of the kernel (mm/slab_common.c).

use whyslow_model::catalogue::Slab;
use whyslow_model::window::Window;

/// Returns the cache that holds the most memory among the unreclaimable ones.
pub fn largest_fixed(window: &Window) -> Option<(&str, f64)> {
    let caches = window.newest::<Slab>().into_values();
    let fixed =
        caches.filter(|slab| !is_reclaimable(&slab.cache)).filter_map(|slab| Some((&*slab.cache, slab.bytes.get()?)));
    fixed.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Returns the memory of all unreclaimable caches that are listed.
pub fn all_fixed(window: &Window) -> Option<f64> {
    let fixed = window.newest::<Slab>().into_values().filter(|slab| !is_reclaimable(&slab.cache));
    fixed.filter_map(|slab| slab.bytes.get()).reduce(|a, b| a + b)
}

/// Returns the caches of files and directories: their sum, and the name of the largest.
pub fn of_files(window: &Window) -> Option<(f64, &str)> {
    let caches = window.newest::<Slab>().into_values().filter(|slab| is_reclaimable(&slab.cache));
    let caches: Vec<(&str, f64)> = caches.filter_map(|slab| Some((&*slab.cache, slab.bytes.get()?))).collect();
    let (largest, _) = caches.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some((caches.iter().map(|(_, bytes)| bytes).sum(), largest))
}

/// Returns the unreclaimable cache that grew most over the window, and its growth rate.
pub fn fastest_growing_fixed(window: &Window) -> Option<(&str, f64)> {
    let changes = window.changes::<Slab>().into_iter().filter(|slab| !is_reclaimable(slab.key()));
    let rates = changes.filter_map(|slab| {
        let course: Vec<_> = slab.course(|slab| slab.bytes.get()).collect();
        let ((start, first), (end, last)) = (course.first()?, course.last()?);
        (end > start && last > first).then(|| (&**slab.key(), (last - first) / (end - start)))
    });
    rates.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Returns true for caches of files, directories and pages (SLAB_RECLAIM_ACCOUNT).
fn is_reclaimable(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "dentry",
        "dentry_cache",
        "buffer_head",
        "radix_tree_node",
        "xarray_node",
        "ext4_extent_status",
        "extent_status",
        "btrfs_extent_buffer",
    ];
    NAMES.contains(&name)
        || ["_inode_cache", "_inode", "inode_cache"].iter().any(|end| name.ends_with(end))
        || name.starts_with("kmalloc-rcl")
        || name.starts_with("xfs_i")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::window;
    use whyslow_model::catalogue::Family;
    use whyslow_model::snapshot::Snapshot;

    fn slab(name: &str, bytes: f64) -> Slab {
        Slab { bytes: bytes.into(), ..Slab::keyed(name.into()) }
    }

    #[test]
    fn caches_of_files_are_not_counted() {
        let mut snapshot = Snapshot { boot_ns: 1, ..Snapshot::default() };
        snapshot.memory.slab =
            vec![slab("dentry", 9e9), slab("ext4_inode_cache", 8e9), slab("kmalloc-64", 7e9), slab("skbuff_head", 1e9)];
        let window = Window::new(vec![snapshot]);
        assert_eq!(largest_fixed(&window), Some(("kmalloc-64", 7e9)));
        assert_eq!(fastest_growing_fixed(&window), None, "one reading");
        assert_eq!((of_files(&window), all_fixed(&window)), (Some((17e9, "dentry")), Some(8e9)));
    }

    #[test]
    fn the_cache_that_grows_need_not_be_the_largest() {
        let window = window([0, 2], |t, s| {
            let caches = [("kmalloc-64", 7e9, 0.0), ("msg", 1e6, 5e6), ("dentry", 1e6, 9e6)];
            s.memory.slab = caches.map(|(name, bytes, growth)| slab(name, bytes + growth * t as f64)).into();
        });
        assert_eq!(fastest_growing_fixed(&window), Some(("msg", 5e6)));
    }
}
