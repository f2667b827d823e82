//! What differs between two measurements beyond what comes about by itself. Computes, and touches nothing.
//!
//! A period of observation becomes a summary ([`Summary`]): the course of each signal in at most 128 means, how its values are
//! distributed, and the machine's inventory ([`inventory`]). Benchmarks ([`of_bench`]) and captures ([`of_capture`]) become the same. Two of them
//! are compared series by series ([`compare()`]); the statistics ([`stats`]) serve experiments and fleets ([`fleet`]) too.

mod bench;
mod captures;
mod compare;
mod conclusion;
mod experiment;
pub mod fleet;
mod inventory;
mod remember;
pub mod stats;
mod summary;

pub use bench::of_bench;
pub use captures::of_capture;
pub use compare::{LEAST, compare};
pub use conclusion::{conclusions, conclusions_within, differ_in_options, differ_in_settings, disks_at_ceiling};
pub use inventory::{OF_THE_RECORDER, inventory};
pub use remember::{remember, usual};
pub use summary::Summary;
