//! Control groups, version 1, 2 and mixed.

mod files;
mod forest;
mod groups;
mod hierarchy;
mod ids;
#[cfg(test)]
mod live_tests;
mod parse;
mod rows;
#[cfg(test)]
mod tree_tests;
mod v1;
mod v2;

pub(crate) use ids::block_groups;

use crate::source::Source;

/// The sources of this wing.
pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![Box::<groups::Groups>::default()]
}
