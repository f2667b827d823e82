//! Settings of the kernel: what there is to set, what it is now, and changes that are made safely.
//!
//! A change is written to the journal before it is made, read back after, and rolled back by `undo`, by a failure, by an
//! expired confirmation, or by the next run after a crash. Only what still holds our value is rolled back.

mod amount;
mod catalogue;
mod clock;
mod error;
pub mod experiment;
mod guardian;
mod inspect;
mod instances;
mod journal;
mod lock;
mod machine;
mod mounts;
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
pub use error::Error;
pub use guardian::{guard, start as start_guard};
pub use inspect::{check, foresee, get, history, tunable, tunables, unfinished, unread};
pub use journal::Unread;
pub use machine::Machine;
pub use persist::plan as persist_plan;
pub use plan::Plan;
pub use request::{ChangeRequest, RequestedValue, parse_change};
pub use session::{Guard, Session, Terms, all_clean, awaiting_confirmation};
pub use store::{STATE, Store, who};
pub use target::Target;
