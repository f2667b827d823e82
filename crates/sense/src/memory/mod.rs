//! Memory: what holds it, what reclaim does, huge pages, swap, slab, nodes.

mod hugepages;
mod meminfo;
mod numa;
mod slabinfo;
mod swaps;
mod sysfs_mm;
mod vmstat;

#[cfg(test)]
mod hostile;

use crate::source::Source;

/// The sources of this wing.
pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        Box::new(meminfo::MeminfoFile),
        Box::new(vmstat::VmstatFile),
        Box::new(hugepages::HugepagePools::default()),
        Box::new(sysfs_mm::PageSharing),
        Box::new(swaps::Swaps),
        Box::new(slabinfo::Slabinfo),
        Box::new(numa::NumaNodes::default()),
    ]
}
