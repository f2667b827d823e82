//! The machine, its limits and settings, the kernel's log, and the observer itself.

use crate::source::Source;

/// The sources of this wing.
pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    Vec::new()
}
