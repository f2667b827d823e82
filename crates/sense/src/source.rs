//! What every source has in common.

pub use crate::miss::Miss;
use crate::root::Root;
use whyslow_model::snapshot::Snapshot;

/// How often a source is worth reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tempo {
    /// Counters and levels: at every sample.
    Sample,
    /// Settings and inventory, which hardly change: at the first sample, and once a minute after that.
    Slow,
    /// What costs too much to be always on: at every sample from when it is asked for ([`Sampler::ask`](crate::Sampler::ask)).
    Asked,
}

/// One kernel source.
pub trait Source: Send {
    /// Its name, such as `proc/stat`.
    fn name(&self) -> &'static str;

    /// What it tells, in a few words, for a blind spot: `processor time by mode`.
    fn tells(&self) -> &'static str;

    /// How often to read it.
    fn tempo(&self) -> Tempo {
        Tempo::Sample
    }

    /// Does beforehand what takes long, such as loading programs into the kernel: the sources of the first sample are then read
    /// as close together as those of the later ones. What goes wrong is said when it is read.
    fn prepare(&mut self, _: &Root) {}

    /// Reads it into `out`, whose tables that this source fills are empty.
    ///
    /// # Errors
    /// What was missed and why. Rows written before the error are kept: a partial reading is a reading.
    fn read(&mut self, root: &Root, out: &mut Snapshot) -> Result<(), Miss>;
}
