//! Judges a Window: signals, rules, Diagnosis. Never touches the system.
//!
//! [`signal`](crate::RuleBook) physics is Rust, tested against known numbers; judgement is data, in `rules/`. What could
//! not be seen is *unknown*, which is not *false*.

mod blame;
mod cleared;
mod closer;
mod document;
mod expr;
mod facts;
mod figure;
mod figures;
mod judge;
mod kernel_log;
mod relate;
mod rule;
mod rulebook;
mod scene;
mod scope;
mod shared_device;
mod side_by_side;
mod signal;
mod signals;
mod since;
mod sources;
mod template;
mod timeline;
mod unseen;

pub use closer::asked;
pub use document::{diagnose, findings};
pub use figure::{Figure, values};
pub use figures::figures;
pub use rule::RuleError;
pub use rulebook::RuleBook;
pub use side_by_side::side_by_side;
pub use timeline::{FeltCause, FoundEpisode, Timeline, recorded_findings};
