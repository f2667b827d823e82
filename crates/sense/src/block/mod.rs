//! Block devices, their queues and stacking, mounts, software RAID.

pub(crate) mod device;
mod diskstats;
mod layers;
mod md;
pub(crate) mod mountinfo;
mod mounts;
mod mountstats;
mod page_cache;
mod queue;
mod requests;
mod statvfs;

pub(crate) use mounts::{FullMount, FullMounts};

use crate::source::{Source, listed, loaded, stateless};

pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        stateless(diskstats::INFO, diskstats::read),
        loaded(requests::INFO, requests::BlockTracer::load, requests::BlockTracer::read),
        loaded(page_cache::INFO, page_cache::load, page_cache::read),
        Box::new(queue::DiskQueues::default()),
        Box::new(layers::Layers::default()),
        Box::new(mounts::MountTable::default()),
        listed(mountstats::INFO, mountstats::client, mountstats::read),
        listed(md::INFO, md::list, md::read),
    ]
}
