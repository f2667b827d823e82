//! Produces known load and measures what came of it.
//!
//! A [`Workload`](whyslow_model::bench::Workload) says what to ask for, a target is opened so that nothing of anybody's is at
//! risk, an engine carries requests to the kernel, a tally counts what comes back, and a ledger sets what was asked for
//! against what each layer of the stack saw.

mod budget;
mod busy;
mod cache;
pub mod contend;
mod content;
pub mod disk;
mod engine;
mod environment;
mod error;
pub mod fio;
pub mod fs;
pub mod layers;
mod ledger;
mod load;
pub mod memory;
pub mod net;
mod pinned;
mod places;
pub mod processor;
mod round;
mod session;
mod stop;
mod studies;
pub mod target;

pub use error::Error;
pub use round::Progress;
pub use stop::Stop;
