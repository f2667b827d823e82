//! Code shared by the comparison programs: runs programs in pairs, and computes the ratios of their results with
//! confidence intervals.

pub mod child;
pub mod comparison;
pub mod failure;
pub mod in_turn;
pub mod options;
pub mod pinning;
pub mod program;
pub mod sleepers;
pub mod stop;
