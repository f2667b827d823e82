//! The tools of procps.

pub(crate) mod free;
pub(crate) mod ps;
mod tasks;
pub(crate) mod top;
pub(crate) mod vmstat;
