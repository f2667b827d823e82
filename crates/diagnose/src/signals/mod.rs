//! The physics: what each kind of thing did over the window, as signals.

pub mod blocked;
pub mod connection;
pub mod core;
mod depth;
pub mod disk;
pub mod filesystem;
pub mod group;
pub mod host;
pub mod interface;
pub mod io;
pub mod limit;
mod lock;
pub mod log;
mod loss;
pub mod part;
pub mod pcie;
pub mod peer;
pub mod process;
pub mod quota;
pub mod reports;
mod requester;
mod served;
mod short_lived;
pub mod shortage;
mod sleep;
pub mod task;
pub mod volume;
