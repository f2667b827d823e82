//! Types shared by all crates: the metrics that exist, the values measured, and the contents of a diagnosis.
//!
//! Nothing here reads the system or touches a file.

pub mod baseline;
pub mod bench;
pub mod blind_spots;
pub mod catalogue;
pub mod cgroup;
pub mod chart;
pub mod comparison;
pub mod cpu_list;
pub mod diagnosis;
pub mod expectation;
pub mod explanation;
pub mod histogram;
pub mod human;
pub mod inventory;
pub mod io_stack;
pub mod kernel_log;
pub mod kernel_stack;
pub mod key;
pub mod listing;
pub mod mask;
pub mod normal;
pub mod origin;
pub mod overview;
pub mod plausible;
pub mod polling;
pub mod profile;
pub mod rename;
pub mod row;
pub mod settings;
pub mod shared;
pub mod since_boot;
pub mod sleep;
pub mod suggest;
pub mod time_breakdown;
pub mod topology;
pub mod tune;
pub mod value;
pub mod window;

/// Raw counters at one instant.
pub mod snapshot {
    pub use crate::catalogue::{ReadOutcome, Snapshot, SourceReport};
}
