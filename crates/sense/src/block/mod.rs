//! Block devices, their queues and stacking, mounts, arrays.

pub(crate) mod device;
mod diskstats;
#[cfg(test)]
pub(crate) mod fixture;
mod layers;
mod md;
pub(crate) mod mount_watch;
pub(crate) mod mountinfo;
mod mounts;
mod mountstats;
mod page_cache;
mod queue;
mod requests;
mod statvfs;

use crate::source::Source;

/// The sources of this wing.
pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        Box::new(diskstats::DiskStats),
        Box::new(requests::Requests::default()),
        Box::new(page_cache::Cache::default()),
        Box::new(queue::Queues::default()),
        Box::new(layers::Layers::default()),
        Box::new(mounts::Mounts::default()),
        Box::new(mountstats::NfsMounts::default()),
        Box::new(md::Arrays::default()),
    ]
}
