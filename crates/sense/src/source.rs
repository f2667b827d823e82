//! What every source has in common.

use crate::root::Root;
use crate::source_error::SourceError;
use whyslow_model::snapshot::Snapshot;

/// How often a source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Counters and levels: at every sample.
    EverySample,
    /// Settings and inventory, which hardly change: at the first sample, then once a minute.
    Slow,
    /// Too expensive to be always on: at every sample after [`Sampler::ask`](crate::Sampler::ask).
    OnDemand,
}

/// What a source is, as the documentation lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// The kernel source it reads, such as `proc/stat`.
    pub name: &'static str,
    /// What it reports, in the words a blind spot uses: `CPU time by mode`.
    pub description: &'static str,
    /// How often it is read.
    pub schedule: Schedule,
}

impl SourceInfo {
    /// A source that is read at every sample.
    pub const fn new(name: &'static str, description: &'static str) -> Self {
        Self { name, description, schedule: Schedule::EverySample }
    }

    /// The same source, read once a minute.
    pub const fn slow(self) -> Self {
        Self { schedule: Schedule::Slow, ..self }
    }

    /// The same source, read only after it was asked for.
    pub const fn on_demand(self) -> Self {
        Self { schedule: Schedule::OnDemand, ..self }
    }
}

/// One kernel source.
pub trait Source: Send {
    /// The description of the source.
    fn info(&self) -> SourceInfo;

    /// Does slow setup, such as loading BPF programs, ahead of the first sample, so that the sources of that sample are read
    /// as close together as those of later ones. [`read`](Self::read) reports what failed.
    fn prepare(&mut self, _: &Root) {}

    /// Reads into `out`, in which the tables of this source are empty.
    ///
    /// # Errors
    /// What could not be read, and why. Rows written before the error are kept.
    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError>;
}

/// A source that keeps nothing from sample to sample.
struct Stateless {
    info: SourceInfo,
    read: fn(&Root, &mut Snapshot) -> Result<(), SourceError>,
}

impl Source for Stateless {
    fn info(&self) -> SourceInfo {
        self.info
    }

    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), SourceError> {
        (self.read)(root, out)
    }
}

pub(crate) fn stateless(
    info: SourceInfo,
    read: fn(&Root, &mut Snapshot) -> Result<(), SourceError>,
) -> Box<dyn Source> {
    Box::new(Stateless { info, read })
}
