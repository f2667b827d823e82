//! Tuning: tunables, plans, the change journal, profiles and experiments.

mod change;
mod plan;
mod trial;
mod tunable;

pub use change::{
    ChangeOutcome, ChangedBy, Collateral, Confirm, Held, HistoryEntry, Reason, SettingChange, Status, Transaction,
    Undoing,
};
pub use plan::{
    CheckLine, ImportedProfile, PlanDocument, PlanLine, PlanStep, ProfileInfo, ProfileNote, ProfilePlan, Recommendation,
};
pub use trial::{
    PreparedChange, Promise, Rehearsal, Trial, TrialEffect, TrialEvidence, TrialPair, TrialVerdict, Walk, WalkStep,
    Watched, unit_of,
};
pub use tunable::{Access, Effect, Here, Persist, Risk, Stalls, Tunable, TunableDocument, TunableScope, Unavailable};
