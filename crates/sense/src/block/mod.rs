//! Block devices, their queues and stacking, mounts, arrays.

mod arrays;
mod cache;
pub(crate) mod device;
mod diskstats;
#[cfg(test)]
pub(crate) mod fixture;
mod full_mounts;
mod layers;
pub(crate) mod mount_watch;
pub(crate) mod mountinfo;
mod mounts;
mod nfs;
mod queue;
mod requests;
mod space;

pub(crate) use full_mounts::{FullMount, FullMounts};

use crate::source::Source;

/// The sources of this wing.
pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        Box::new(diskstats::DiskStats),
        Box::new(requests::Requests::default()),
        Box::new(cache::Cache::default()),
        Box::new(queue::Queues::default()),
        Box::new(layers::Layers::default()),
        Box::new(mounts::Mounts::default()),
        Box::new(nfs::NfsMounts::default()),
        Box::new(arrays::Arrays::default()),
    ]
}
