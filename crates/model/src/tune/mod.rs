//! Tuning: what can be set, what was changed and by whom, and what became of it.

mod change;
mod plan;
mod profile;
mod trial;
mod tunable;
mod walk;

pub use change::{Change, Collateral, Confirm, Held, HistoryEntry, Outcome, Reason, Status, Transaction, Undoing, Who};
pub use plan::{CheckLine, PlanDocument, PlanLine, Step};
pub use profile::{ProfileInfo, ProfileNote, Recommendation};
pub use trial::{Effect as TrialEffect, Pair, Rehearsal, Trial, TrialEvidence, TrialVerdict, Watched, unit_of};
pub use tunable::{Access, Effect, Here, Persist, Risk, Scope, Tunable, TunableDocument, Unavailable};
pub use walk::{Walk, WalkStep};
