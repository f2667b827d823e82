//! What somebody measured: transfers and benchmarks.

pub(crate) mod bonnie;
pub(crate) mod dd;
pub(crate) mod fio;
pub(crate) mod iozone;
pub(crate) mod iperf;
pub(crate) mod iperf3;
pub(crate) mod perf_stat;
