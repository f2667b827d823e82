//! Interfaces, protocols, connections, sockets, qdiscs, in every namespace that can be seen.

use crate::source::Source;

/// The sources of this wing.
pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    Vec::new()
}
