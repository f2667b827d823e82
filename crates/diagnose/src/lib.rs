//! Judges a Window: signals, rules, Diagnosis. Never touches the system.
//!
//! [`signal`](crate::RuleBook) physics is Rust, tested against known numbers; judgement is data, in `rules/`. What could not be
//! measured is *unknown*, which is not *false*.

mod blame;
pub mod breakdown;
mod cause;
mod cleared;
mod coverage;
mod document;
mod expect;
mod expr;
mod facts;
mod flow;
mod impossible;
mod interference;
mod intervals;
mod judge;
mod kernel_log;
mod ledger;
mod lowered_clock;
mod merge;
mod next_capture;
mod on_demand;
mod own;
mod relate;
mod response_curve;
mod rule;
mod rule_context;
mod rulebook;
mod scope;
mod shared_device;
mod signal;
mod signal_selector;
mod signals;
mod since;
mod since_boot;
mod sources;
mod stack_load;
mod stands_out;
mod template;
#[cfg(test)]
mod testing;
mod timeline;
mod virtual_disks;
mod virtual_machines;

pub use coverage::known_signals;
pub use document::{diagnose, findings_with_id};
pub use expect::{DriveFacts, expectations};
pub use impossible::is_share;
pub use merge::{merge_diagnoses, merge_machines};
pub use on_demand::requested_sources;
pub use rule::RuleError;
pub use rulebook::RuleBook;
pub use scope::all_signals;
pub use signal_selector::{SignalSelector, values};
pub use stack_load::add_loads;
pub use timeline::{EpisodeBuilder, FeltCause, FoundEpisode, MAX_GAP_NS, recorded_findings};
pub use virtual_machines::{VirtualMachines, virtual_machines};
pub use whyslow_model::cgroup;
