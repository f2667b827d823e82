//! The tools of sysstat.

mod binary;
mod devices;
pub(crate) mod document;
mod headless;
pub(crate) mod iostat;
pub(crate) mod pidstat;
mod processor;
pub(crate) mod sar;

pub use binary::converted;
