//! Block devices, their queues and stacking, mounts, software RAID.

pub(crate) mod device;
mod diskstats;
mod full_mounts;
mod layers;
mod md;
pub(crate) mod mountinfo;
mod mounts;
mod mountstats;
mod page_cache;
mod queue;
mod requests;
mod statvfs;

pub(crate) use full_mounts::{FullMount, FullMounts};

use crate::source::{Source, stateless};

pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        stateless(diskstats::INFO, diskstats::read),
        Box::new(requests::Requests::default()),
        Box::new(page_cache::PageCacheUse::default()),
        Box::new(queue::DiskQueues::default()),
        Box::new(layers::Layers::default()),
        Box::new(mounts::MountTable::default()),
        Box::new(mountstats::NfsMounts::default()),
        Box::new(md::MdArrays::default()),
    ]
}
