//! File systems, partitions and what lies on what.

pub(crate) mod df;
pub(crate) mod fdisk;
pub(crate) mod lsblk;
pub(crate) mod mount;
pub(crate) mod nfs;
pub(crate) mod parted;
pub(crate) mod smartctl;
pub(crate) mod spmgr;
pub(crate) mod xfs_info;
