//! Programs that are attached to tracepoints when their owner wants it.

use super::calls::attach_tracepoint;
use super::refusal::failed;
use crate::source::SourceError;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Loaded programs, each for a tracepoint, that one owner attaches together.
#[derive(Clone, Debug)]
pub(crate) struct Tracepoints {
    object: &'static str,
    programs: Arc<[OwnedFd]>,
}

/// Programs at work, until this is dropped.
#[derive(Debug)]
pub(crate) struct Attached {
    _links: Vec<OwnedFd>,
}

impl Attached {
    /// By what the kernel gave for each.
    pub(super) fn of(links: Vec<OwnedFd>) -> Self {
        Self { _links: links }
    }
}

impl Tracepoints {
    /// Of this object's programs, by their descriptors.
    pub(super) fn new(object: &'static str, programs: Vec<OwnedFd>) -> Self {
        Self { object, programs: programs.into() }
    }

    /// Puts them to work.
    ///
    /// # Errors
    /// The kernel does not attach one.
    pub(crate) fn attach(&self) -> Result<Attached, SourceError> {
        let links: io::Result<_> = self.programs.iter().map(|program| attach_tracepoint(program.as_fd())).collect();
        links.map(Attached::of).map_err(|e| failed(self.object, &e))
    }
}
