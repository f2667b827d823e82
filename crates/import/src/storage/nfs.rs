//! NFS as the client counts it: nfsiostat(8), mountstats(8), /proc/self/mountstats (struct rpc_iostats of
//! include/linux/sunrpc/metrics.h).

mod iostat;
mod mountstats;

pub use iostat::FORMAT as NFSIOSTAT;
pub use mountstats::FORMAT as MOUNTSTATS;

/// A millisecond in nanoseconds.
const MS: f64 = 1e6;
