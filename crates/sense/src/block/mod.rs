//! Block devices, their queues and stacking, mounts, software RAID.

mod adapter;
pub(crate) mod device;
mod diskstats;
mod dm_ioctl;
mod file_systems;
mod layers;
mod mapped;
pub(crate) mod mapped_parts;
mod md;
pub(crate) mod mountinfo;
mod mounts;
mod mountstats;
mod nvme_paths;
mod page_cache;
mod queue;
pub(crate) mod remote_helper;
pub(crate) mod remote_mounts;
mod requests;
mod scsi;
mod statvfs;
mod zram;

pub(crate) use mounts::FullMount;

use crate::source::{Source, listed, loaded, stateless};

pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![
        stateless(diskstats::INFO, diskstats::read),
        loaded(requests::INFO, requests::BlockTracer::load, requests::BlockTracer::read),
        loaded(page_cache::INFO, page_cache::load, page_cache::read),
        Box::new(queue::DiskQueues::default()),
        Box::new(layers::Layers::default()),
        stateless(mapped::INFO, mapped::read),
        stateless(zram::INFO, zram::read),
        listed(scsi::INFO, scsi::list, scsi::read),
        stateless(file_systems::INFO, file_systems::read),
        Box::new(mounts::MountTable::default()),
        listed(mountstats::INFO, mountstats::client, mountstats::read),
        listed(md::INFO, md::list, md::read),
        listed(nvme_paths::INFO, nvme_paths::list, nvme_paths::read),
    ]
}
