//! The types shared by all crates: what can be measured, what was measured, and what a diagnosis says.
//!
//! Nothing here reads the system or touches a file.

pub mod baseline;
pub mod bench;
pub mod catalogue;
pub mod comparison;
pub mod device;
pub mod diagnosis;
pub mod explanation;
pub mod format;
pub mod histogram;
pub mod human;
pub mod io_error;
pub mod kernel_log;
pub mod key;
pub mod mask;
pub mod origin;
pub mod profile;
pub mod recording;
mod report;
pub mod rule;
pub mod shared;
pub mod shell;
pub mod snapshot;
pub mod suggest;
pub mod topology;
pub mod tune;
pub mod unit;
pub mod value;
pub mod window;
