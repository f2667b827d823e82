//! Limits, and what is taken of them.

pub(crate) mod sysv;
pub(crate) mod ulimit;
