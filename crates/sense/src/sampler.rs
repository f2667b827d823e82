//! Runs every source and puts what they read together.

use crate::{Root, Source};
use whyslow_model::snapshot::Snapshot;

/// All sources of a machine.
pub struct Sampler {
    root: Root,
    sources: Vec<Box<dyn Source>>,
}

impl Sampler {
    /// Every source there is, read from `root`.
    pub fn new(root: Root) -> Self {
        let sources = [
            crate::processor::sources(),
            crate::memory::sources(),
            crate::block::sources(),
            crate::net::sources(),
            crate::cgroup::sources(),
            crate::task::sources(),
            crate::kernel::sources(),
        ];
        Self { root, sources: sources.into_iter().flatten().collect() }
    }

    /// Reads every source once.
    pub fn sample(&mut self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for source in &mut self.sources {
            let mut part = Snapshot::default();
            let _ = source.read(&self.root, &mut part);
            snapshot.absorb(part);
        }
        snapshot.sort();
        snapshot
    }
}
