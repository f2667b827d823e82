//! The physics, one file per kind of entity.

use whyslow_model::catalogue::MachineInfo;
use whyslow_model::window::Window;

pub mod array;
pub mod blocked;
pub mod card;
pub mod connection;
pub mod core;
pub mod database;
mod depth;
pub mod disk;
pub mod group;
pub mod host;
pub mod interface;
pub mod io;
pub mod irq;
pub mod kill;
pub mod limit;
pub mod lock;
mod logged;
mod loss;
pub mod mount;
pub mod multipath;
pub mod nfs;
pub mod notice;
pub mod part;
pub mod partition;
pub mod peer;
pub mod process;
pub mod quota;
pub mod requester;
mod served;
pub mod short_lived;
pub mod shortage;
pub mod sleep;
pub mod socket;
pub mod task;
pub mod thread;
pub mod transfer;
pub mod writer;

/// A network namespace as a subject names it: `None` for the observer's own.
pub(crate) fn netns(ns: &str) -> Option<String> {
    (!ns.is_empty()).then(|| ns.to_owned())
}

/// Bytes of a page, in which the kernel counts memory events; 4 KiB, as on most machines, where it was not read.
pub(crate) fn page_size(window: &Window) -> f64 {
    window.the::<MachineInfo>().and_then(|m| m.page_size.get()).unwrap_or(4096.0)
}
