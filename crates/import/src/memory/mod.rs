//! Memory by node.

pub(crate) mod numactl;
pub(crate) mod numastat;
