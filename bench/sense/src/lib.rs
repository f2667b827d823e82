//! What measurements of observers have in common: programs run beside, sleeping processes, and an end that cleans up.

pub mod child;
pub mod failure;
pub mod sleepers;
pub mod stop;
