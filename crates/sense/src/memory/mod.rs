//! Memory: usage by purpose, reclaim, huge pages, swap, slab, NUMA nodes.

mod arcstats;
mod edac;
mod meminfo;
mod numa;
mod sysfs_mm;
mod vmstat;

pub(crate) use numa::nodes_of_cpus;

use crate::source::{Source, listed, stateless};

pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        stateless(meminfo::MEMINFO, meminfo::read_meminfo),
        stateless(vmstat::INFO, vmstat::read),
        stateless(arcstats::INFO, arcstats::read),
        listed(sysfs_mm::HUGEPAGES, sysfs_mm::hugepage_pools, sysfs_mm::read_hugepages),
        stateless(sysfs_mm::SHARING, sysfs_mm::read_sharing),
        stateless(meminfo::SWAPS, meminfo::read_swaps),
        stateless(meminfo::SLABS, meminfo::read_slabs),
        listed(numa::INFO, numa::list, numa::read),
        listed(edac::INFO, edac::modules, edac::read),
    ]
}
