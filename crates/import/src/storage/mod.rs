//! File systems, partitions and what lies on what.

pub(crate) mod df;
pub(crate) mod fdisk;
