//! Memory: what holds it, reclaim, huge pages, swap, slab, NUMA nodes.

mod meminfo;
mod numa;
mod slabinfo;
mod swaps;
mod sysfs_mm;
mod vmstat;

use crate::source::{Source, listed, stateless};

pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        stateless(meminfo::INFO, meminfo::read),
        stateless(vmstat::INFO, vmstat::read),
        listed(sysfs_mm::HUGEPAGES, sysfs_mm::hugepage_pools, sysfs_mm::read_hugepages),
        stateless(sysfs_mm::SHARING, sysfs_mm::read_sharing),
        stateless(swaps::INFO, swaps::read),
        stateless(slabinfo::INFO, slabinfo::read),
        listed(numa::INFO, numa::list, numa::read),
    ]
}
