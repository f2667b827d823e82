//! Comparison of measurements: differences beyond normal variation. Pure computation, no I/O.
//!
//! A period of observation becomes a summary ([`Summary`]): the time series of each signal as at most 128 means, the
//! distribution of its values, and the machine's inventory ([`inventory`]). Benchmarks ([`of_bench`]) and captures
//! ([`of_capture`]) are summarized in the same form. Two summaries are compared series by series ([`compare()`]);
//! experiments and fleets ([`fleet`]) use the same statistics ([`stats`]).

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
pub use captures::{add_stated_changes, from_both_ends, of_capture};
pub use compare::{LEAST, compare};
pub use conclusion::{conclusions, conclusions_within, differ_in_options, differ_in_settings, disks_at_ceiling};
pub use inventory::{OF_THE_RECORDER, inventory};
pub use remember::{remember, usual};
pub use summary::Summary;
