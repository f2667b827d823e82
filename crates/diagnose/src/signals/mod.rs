//! The physics, one file per kind of entity.

pub mod connection;
pub mod core;
pub mod disk;
pub mod group;
pub mod host;
pub mod interface;
pub mod kill;
pub mod limit;
pub mod mount;
pub mod process;
pub mod quota;
pub mod short_lived;
pub mod socket;
pub mod task;
pub mod thread;

/// A network namespace as a subject names it: `None` for the observer's own.
pub(crate) fn netns(ns: &str) -> Option<String> {
    (!ns.is_empty()).then(|| ns.to_owned())
}
