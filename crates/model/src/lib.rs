//! Types shared by all crates: the metrics that exist, and the values measured. What is concluded from them is in `documents`.
//!
//! Nothing here reads the system or touches a file.

pub mod catalogue;
pub mod cgroup;
pub mod cpu_list;
pub mod histogram;
pub mod human;
pub mod inventory;
pub mod kernel_log;
pub mod kernel_stack;
pub mod key;
pub mod mask;
pub mod normal;
pub mod origin;
pub mod plausible;
pub mod polling;
pub mod rename;
pub mod row;
pub mod settings;
pub mod shared;
pub mod since_boot;
pub mod sleep;
pub mod subject;
pub mod suggest;
pub mod topology;
pub mod value;
pub mod window;

/// Raw counters at one instant.
pub mod snapshot {
    pub use crate::catalogue::{ReadOutcome, Snapshot, SourceReport};
}
