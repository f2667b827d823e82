//! Control groups, version 1, 2 and mixed.

mod files;
mod groups;
mod hierarchy;
#[cfg(test)]
mod live_tests;
mod rows;
#[cfg(test)]
mod tree_tests;
mod v1;
mod v2;

pub(crate) use hierarchy::block_groups;

use crate::source::Source;

pub(crate) fn sources() -> Vec<Box<dyn Source>> {
    vec![Box::<groups::Cgroups>::default()]
}
