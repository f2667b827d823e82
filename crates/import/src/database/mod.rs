//! What databases report on themselves.

pub(crate) mod statspack;
