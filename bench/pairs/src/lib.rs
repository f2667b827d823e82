//! What benchmarks of whyslow share: programs that are run in turn, the ratios of what they did, and how sure those are.

pub mod child;
pub mod comparison;
pub mod dice;
pub mod failure;
pub mod held;
pub mod options;
pub mod program;
pub mod sleepers;
pub mod stop;
