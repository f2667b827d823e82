//! The tools of sysstat.

mod devices;
pub(crate) mod iostat;
pub(crate) mod pidstat;
mod processor;
pub(crate) mod sar;
