//! Settings of the kernel: the available tunables, their current values, and safe changes.
//!
//! A change is written to the journal before it is made, read back after, and rolled back by `undo`, by a failure, by an expired
//! confirmation, or by the next run after a crash. Only settings that still have our value are rolled back.

mod amount;
mod catalogue;
pub mod experiment;
mod guardian;
mod inspect;
mod instances;
mod journal;
mod lock;
mod machine;
mod mounts;
mod offered;
mod own_session;
mod persist;
mod plan;
pub mod profile;
mod request;
mod session;
mod store;
mod system_setting;
mod target;
mod undo;
mod values;

pub use catalogue::Catalogue;
pub use guardian::{guard, start as start_guard};
pub use inspect::{check, foresee, get, history, tunable, tunables, unfinished, unread};
pub use journal::Unread;
pub use machine::Machine;
pub use persist::plan as persist_plan;
pub use plan::Plan;
pub use request::{ChangeRequest, RequestedValue, parse_change};
pub use session::{Guard, Session, Terms, all_clean, awaiting_confirmation};
pub use store::{STATE, TuneFolder, who};
pub use target::ChangeTarget;

use std::fmt;
use whyslow_documents::tune::{Unavailable, Undoing};

/// Reason why an operation failed. Nothing is changed then, except as the variant says.
#[derive(Debug)]
pub enum Error {
    /// The request makes no sense.
    Usage(String),
    /// A setting cannot be read or written.
    Unavailable {
        /// The setting.
        target: String,
        /// The reason.
        why: Unavailable,
    },
    /// Another run is active.
    Busy(String),
    /// The journal cannot be read or written.
    Journal(String),
    /// A signal ended the run: its changes were rolled back.
    Interrupted,
    /// The run was started and failed: its changes were rolled back, with these outcomes.
    RolledBack {
        /// The failure.
        why: String,
        /// Outcome for each change.
        outcomes: Vec<Undoing>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) | Self::Busy(what) | Self::Journal(what) => write!(f, "{what}"),
            Self::Unavailable { target, why } => write!(f, "{target}: {why}"),
            Self::Interrupted => write!(f, "interrupted; everything was rolled back"),
            Self::RolledBack { why, outcomes } => {
                write!(f, "{why}; ")?;
                match outcomes.iter().find(|undoing| !undoing.outcome.is_clean()) {
                    None => write!(f, "everything was rolled back"),
                    Some(left) => {
                        write!(
                            f,
                            "NOT rolled back: {} ({:?}); 'whyslow tune undo' tries again",
                            left.target, left.outcome
                        )
                    }
                }
            }
        }
    }
}

impl std::error::Error for Error {}
