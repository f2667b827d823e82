//! The tools of procps.

pub(crate) mod free;
pub(crate) mod ps;
mod tasks;
pub(crate) mod top;
pub(crate) mod uptime;
pub(crate) mod vmstat;
pub(crate) mod vmstat_d;
pub(crate) mod vmstat_s;
