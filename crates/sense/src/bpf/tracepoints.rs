//! Tracepoint programs that their owner attaches and detaches.

use super::calls::attach_tracepoint;
use super::errors::failed;
use crate::source_error::SourceError;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Loaded programs that are attached together.
#[derive(Clone, Debug)]
pub(crate) struct Tracepoints {
    object: &'static str,
    programs: Arc<[OwnedFd]>,
}

/// Attached programs; detaches them when dropped.
#[derive(Debug)]
pub(crate) struct Attached {
    _links: Vec<OwnedFd>,
}

impl Attached {
    pub(super) fn of(links: Vec<OwnedFd>) -> Self {
        Self { _links: links }
    }
}

impl Tracepoints {
    pub(super) fn new(object: &'static str, programs: Vec<OwnedFd>) -> Self {
        Self { object, programs: programs.into() }
    }

    pub(crate) fn attach(&self) -> Result<Attached, SourceError> {
        let links: io::Result<_> = self.programs.iter().map(|program| attach_tracepoint(program.as_fd())).collect();
        links.map(Attached::of).map_err(|e| failed(self.object, &e))
    }
}
