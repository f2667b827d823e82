//! Control groups, version 1, 2 and mixed.

use crate::source::Source;

/// The sources of this wing.
pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    Vec::new()
}
