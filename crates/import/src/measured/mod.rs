//! What somebody measured: transfers and benchmarks.

pub(crate) mod bonnie;
pub(crate) mod dd;
pub(crate) mod iperf;
