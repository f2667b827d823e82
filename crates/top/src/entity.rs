//! Identity of the rows of the screen.

use whyslow_model::key::{NetKey, SocketKey, TaskKey};
use whyslow_model::value::Name;

/// Identifies a row from sample to sample, and selects its details page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntityId {
    Process(TaskKey),
    Thread(TaskKey),
    Group(Name),
    Disk(Name),
    Interface(NetKey),
    Connection(SocketKey),
    Cpu(u32),
    /// A line of the memory panel; it has no details page.
    Memory(&'static str),
}
